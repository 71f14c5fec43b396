import { lookup } from "node:dns";
import type { LookupFunction } from "node:net";

/**
 * Creates a `lookup` function for connections. The lookup, and with it the connection, fails if the name has an address
 * for which `findProblem` returns an error. The name is checked for each connection, because its addresses may have
 * changed since the user entered it. Node calls no lookup for a host that is an address already, so the caller checks
 * such a host itself.
 */
export function createGuardedLookup(
  findProblem: (address: string) => Error | undefined,
): LookupFunction {
  return (hostname, options, callback) => {
    lookup(hostname, options, (error, address, family) => {
      const found =
        typeof address === "string" ? [address] : (address ?? []).map((one) => one.address);
      const problem = found.map(findProblem).find((one) => one !== undefined);
      callback(problem ?? error, address, family);
    });
  };
}
