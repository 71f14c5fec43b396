import { createTimeLimit } from "../../../base/time-limit.ts";
import type { BusValue } from "../../../dbus/port.ts";
import { sessionBusAddress } from "../../../dbus/session-bus-address.ts";
import type { CliIo } from "../../io.ts";

const ANSWER_MS_MAX = 5_000;
const BUS = "org.freedesktop.DBus";

/**
 * Calls a method of the session bus itself, with texts as arguments. Resolves to undefined if there is no bus, or if it
 * answers with an error. Never rejects.
 */
export async function callSessionBus(
  io: CliIo,
  member: string,
  args: readonly string[] = [],
): Promise<readonly BusValue[] | undefined> {
  const address = sessionBusAddress(io.environment);
  if (address === undefined) return undefined;
  using limit = createTimeLimit(new AbortController().signal, ANSWER_MS_MAX);
  try {
    await using bus = await io.openSessionBus(address, limit.signal, false);
    const method = { destination: BUS, path: "/org/freedesktop/DBus", interface: BUS, member };
    return await bus.call(
      { ...method, signature: "s".repeat(args.length), args },
      { signal: limit.signal, timeoutMs: ANSWER_MS_MAX },
    );
  } catch {
    return undefined;
  }
}
