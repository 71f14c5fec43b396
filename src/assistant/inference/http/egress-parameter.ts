import { Type } from "typebox";
import { dataClasses, type Egress } from "../../data-class.ts";

/** What a client may say of its request beside the prompt, which is always in it. */
const scopes = dataClasses.filter((scope) => scope !== "prompt");

/** `svc_scopes`, on every route that takes a text. */
export const egressField = Type.Optional(Type.Array(Type.Enum(scopes), { maxItems: 16 }));

/** Undefined where the client says nothing. Nothing is ever allowed once by HTTP: that is asked of a person. */
export function parseEgress(
  given: readonly (typeof scopes)[number][] | undefined,
): Egress | undefined {
  if (given === undefined) return undefined;
  return { classes: [...new Set(["prompt", ...given] as const)], allowedOnce: [] };
}
