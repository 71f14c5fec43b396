import type { LookupFunction } from "node:net";
import { createGuardedLookup } from "../../base/http/guarded-lookup.ts";
import { findAddressProblem } from "../../resources/model-source.ts";

/**
 * Creates a `lookup` for requests to the source `original`, and to what it redirects to. It fails if the name has an
 * address to which the source must not lead. `toError` receives the problem, which completes "HOST ...".
 */
export function createSourceLookup(
  original: URL,
  toError: (problem: string) => Error,
): LookupFunction {
  return createGuardedLookup((address) => {
    const problem = findAddressProblem(original, address);
    return problem === undefined ? undefined : toError(problem);
  });
}
