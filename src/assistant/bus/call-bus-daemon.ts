import type { BusConnection } from "../../dbus/bus-connection.ts";
import type { BusValue } from "../../dbus/port.ts";

export const BUS_NAME = "org.freedesktop.DBus";
export const BUS_PATH = "/org/freedesktop/DBus";

/** Time limit of a call to the bus daemon, which normally answers within a millisecond. */
const TIMEOUT_MS = 10_000;

/**
 * Calls a method of the bus daemon. Arguments are strings, or numbers for the flags of RequestName. Rejects like
 * `SessionBus.call`.
 */
export function callBusDaemon(
  bus: BusConnection,
  member: string,
  args: readonly (string | number)[],
  signal: AbortSignal,
): Promise<readonly BusValue[]> {
  const signature = args.map((arg) => (typeof arg === "string" ? "s" : "u")).join("");
  const target = { destination: BUS_NAME, path: BUS_PATH, interface: BUS_NAME };
  return bus.call({ ...target, member, signature, args }, { signal, timeoutMs: TIMEOUT_MS });
}
