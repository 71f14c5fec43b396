import { readFileSync } from "node:fs";
import { connectSessionBus } from "../../src/dbus/connect-session-bus.ts";

/**
 * A program that connects to the session bus at the address in its argument, first without the passing of file
 * descriptors, then with it. It prints a JSON list with a boolean for each connection: true if koffi was loaded.
 */
const [address = ""] = process.argv.slice(2);
const isLoaded = () => readFileSync("/proc/self/maps", "utf8").includes("/koffi.node");

const loaded: boolean[] = [];
for (const negotiateFds of [false, true]) {
  await using _ = await connectSessionBus({ address, negotiateFds });
  loaded.push(isLoaded());
}
process.stdout.write(`${JSON.stringify(loaded)}\n`);
