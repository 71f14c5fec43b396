import { sandboxedApp } from "../../caller.ts";
import type { Asker } from "../../inference/service-port.ts";
import type { EntryValue } from "../../ledger/port.ts";

/** Describes who asked for a request, for the ledger; null if Berth itself needs the request. */
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
