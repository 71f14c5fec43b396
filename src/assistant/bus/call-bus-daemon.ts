import type { BusConnection } from "../../dbus/bus-connection.ts";
import type { BusValue } from "../../dbus/port.ts";

export const BUS_NAME = "org.freedesktop.DBus";
export const BUS_PATH = "/org/freedesktop/DBus";

/** The bus answers in a millisecond, or is as good as dead. */
const TIMEOUT_MS = 10_000;

/** Asks the bus itself. Text arguments only, but for RequestName's flags. Rejects as `SessionBus.call` does. */
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
