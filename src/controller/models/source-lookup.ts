import type { LookupFunction } from "node:net";
import { createGuardedLookup } from "../../base/http/guarded-lookup.ts";
import { findAddressProblem } from "../../resources/model-source.ts";

/**
 * Creates a DNS `lookup` function for requests to the model source `original`, and to the URLs that it redirects to.
 * The look-up fails if the host name has an address that this source must not lead to. `toError` gets the problem as
 * the end of a sentence that begins with the host name.
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
