import { createTimeLimit } from "../../../base/time-limit.ts";
import { sessionBusAddress } from "../../../dbus/session-bus-address.ts";
import type { CliIo } from "../../io.ts";

const ANSWER_MS_MAX = 5_000;

/** Makes the session bus reload its services, because not every bus watches its folders. Never rejects. */
export async function reloadBus(io: CliIo): Promise<void> {
  const address = sessionBusAddress(io.environment);
  if (address === undefined) return;
  using limit = createTimeLimit(new AbortController().signal, ANSWER_MS_MAX);
  try {
    await using bus = await io.openSessionBus(address, limit.signal, false);
    const name = "org.freedesktop.DBus";
    await bus.call(
      {
        destination: name,
        path: "/org/freedesktop/DBus",
        interface: name,
        member: "ReloadConfig",
        signature: "",
        args: [],
      },
      { signal: limit.signal, timeoutMs: ANSWER_MS_MAX },
    );
  } catch {
    // A session bus that starts later reads them at its start.
  }
}
