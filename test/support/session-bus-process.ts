import { readFileSync } from "node:fs";
import { connectSessionBus } from "../../src/dbus/connect-session-bus.ts";

/**
 * A separate process with the argument ADDRESS, a session bus. It connects once without the passing of descriptors
 * and once with it, and prints as a line of JSON if koffi was loaded while each connection was open.
 */
const [address = ""] = process.argv.slice(2);
const isLoaded = () => readFileSync("/proc/self/maps", "utf8").includes("/koffi.node");

const loaded: boolean[] = [];
for (const negotiateFds of [false, true]) {
  await using _ = await connectSessionBus({ address, negotiateFds });
  loaded.push(isLoaded());
}
process.stdout.write(`${JSON.stringify(loaded)}\n`);
