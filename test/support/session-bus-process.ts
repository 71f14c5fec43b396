import { readFileSync } from "node:fs";
import { connectSessionBus } from "../../src/dbus/connect-session-bus.ts";

/**
 * A separate process that connects to a session bus without and with descriptors: `ADDRESS`. Prints, as a line of
 * JSON, for each connection whether koffi was loaded when it was open.
 */
const [address = ""] = process.argv.slice(2);
const isLoaded = () => readFileSync("/proc/self/maps", "utf8").includes("/koffi.node");

const loaded: boolean[] = [];
for (const negotiateFds of [false, true]) {
  await using _ = await connectSessionBus({ address, negotiateFds });
  loaded.push(isLoaded());
}
process.stdout.write(`${JSON.stringify(loaded)}\n`);
