import { type TSchema, Type } from "typebox";
import { closed, FieldChangeView, NullableOf, NullableString } from "./wire-schema.ts";

/** What every plan tells, whatever it is for. */
export const planFields = {
  generation: Type.Integer(),
  operations: Type.Array(
    Type.Object({ operation: Type.String(), target: Type.String(), cause: Type.String() }, closed),
    { description: "in the order in which they would run" },
  ),
  changes: Type.Array(FieldChangeView),
  blocked_by: NullableString,
};

/** The fields of the answer of a write with `dry_run=true`: nothing has changed. */
export function dryRunFields<Plan extends TSchema>(plan: Plan) {
  return {
    dry_run: Type.Literal(true),
    kind: Type.String(),
    name: Type.String(),
    message: Type.String({ description: "what the write would do, in a sentence" }),
    changes: Type.Array(FieldChangeView),
    plan: NullableOf(plan),
  };
}
