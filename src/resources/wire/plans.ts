import { type TSchema, Type } from "typebox";
import { closed, FieldChangeView, NullableOf, NullableString } from "./wire-schema.ts";

export const planFields = {
  generation: Type.Integer(),
  operations: Type.Array(
    Type.Object({ operation: Type.String(), target: Type.String(), cause: Type.String() }, closed),
    { description: "the operations in the order of execution" },
  ),
  changes: Type.Array(FieldChangeView),
  blocked_by: NullableString,
};

/** Returns the common fields of the responses to dry runs (`dry_run=true`); `plan` is the schema of the kind's plan. */
export function dryRunFields<Plan extends TSchema>(plan: Plan) {
  return {
    dry_run: Type.Literal(true),
    kind: Type.String(),
    name: Type.String(),
    message: Type.String({
      description: "description of what the write would do, in one sentence",
    }),
    changes: Type.Array(FieldChangeView),
    plan: NullableOf(plan),
  };
}
