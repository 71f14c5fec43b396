import { isProcessAlive } from "./processes.ts";
import { BusClientError, type TestSessionBus } from "./test-session-bus.ts";

/** Returns the process id of the owner of a bus name; undefined if the name has no owner. */
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

/** Kills the owner of a bus name, and waits until the process has exited. */
export async function endProcessOf(bus: TestSessionBus, name: string): Promise<void> {
  const pid = await ownerOf(bus, name);
  if (pid === undefined) throw new Error(`${name} has no owner`);
  process.kill(pid, "SIGTERM");
  while (isProcessAlive(pid)) await new Promise((resolve) => setTimeout(resolve, 20));
}
