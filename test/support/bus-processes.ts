import { isProcessAlive } from "./processes.ts";
import type { TestSessionBus } from "./session-bus.ts";

/** Ends the program that has a name on the bus, and waits until it is gone. */
export async function endProcessOf(bus: TestSessionBus, name: string): Promise<void> {
  const answer = await bus.gdbusCall(
    "org.freedesktop.DBus",
    "/org/freedesktop/DBus",
    "org.freedesktop.DBus.GetConnectionUnixProcessID",
    name,
  );
  const pid = Number(/uint32 (\d+)/.exec(answer)?.[1]);
  process.kill(pid, "SIGTERM");
  while (isProcessAlive(pid)) await new Promise((resolve) => setTimeout(resolve, 20));
}
