import { Type } from "typebox";
import { dataClasses, type Egress } from "../../data-class.ts";

/** The data classes that a client may declare in addition to `prompt`, which every request contains. */
const scopes = dataClasses.filter((scope) => scope !== "prompt");

/**
 * The request parameter `svc_scopes` of chat, completion and embedding requests: the classes of the data in the
 * request, which determine whether a provider may receive it.
 */
export const egressField = Type.Optional(Type.Array(Type.Enum(scopes), { maxItems: 16 }));

/**
 * Parses the declared data classes. Returns undefined if the client declares none. One-time consent is not available
 * over HTTP, because only the user can give it.
 */
export function parseEgress(
  given: readonly (typeof scopes)[number][] | undefined,
): Egress | undefined {
  if (given === undefined) return undefined;
  return { classes: [...new Set(["prompt", ...given] as const)], allowedOnce: [] };
}
