import { sandboxedApp } from "../../caller.ts";
import type { Asker } from "../../inference/service-port.ts";
import type { EntryValue } from "../../ledger/port.ts";

/**
 * Describes the origin of a request for its ledger entry: the interface and the caller. Returns null if Berth itself
 * needs the request.
 */
export function toAskerField(asker: Asker | undefined): EntryValue {
  if (asker === undefined) return null;
  if (asker.door === "http") return { door: "http", uid: asker.uid ?? null };
  const { door, caller } = asker;
  return {
    door,
    connection: caller.connection,
    app: caller.app?.id ?? null,
    verified: sandboxedApp(caller) !== undefined,
  };
}
