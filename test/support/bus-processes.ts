import { isProcessAlive } from "./processes.ts";
import { BusClientError, type TestSessionBus } from "./test-session-bus.ts";

/** The program that has a name on the bus; undefined: nobody has. */
export async function ownerOf(bus: TestSessionBus, name: string): Promise<number | undefined> {
  try {
    const answer = await bus.gdbusCall(
      "org.freedesktop.DBus",
      "/org/freedesktop/DBus",
      "org.freedesktop.DBus.GetConnectionUnixProcessID",
      name,
    );
    return Number(/uint32 (\d+)/.exec(answer)?.[1]);
  } catch (error) {
    const { busName } = error instanceof BusClientError ? error : {};
    if (busName === "org.freedesktop.DBus.Error.NameHasNoOwner") return undefined;
    throw error;
  }
}

/** Ends the program that has a name on the bus, and waits until it is gone. */
export async function endProcessOf(bus: TestSessionBus, name: string): Promise<void> {
  const pid = await ownerOf(bus, name);
  if (pid === undefined) throw new Error(`nobody has ${name}`);
  process.kill(pid, "SIGTERM");
  while (isProcessAlive(pid)) await new Promise((resolve) => setTimeout(resolve, 20));
}
