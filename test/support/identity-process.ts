import { openBus } from "../../src/assistant/bus/open-bus.ts";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/logger.ts";
import { CONTEXT_PATH, createContextInterface, DAEMON_NAME } from "./bus-harness.ts";

/**
 * A companion's side of the bus, run by another user than root: `identity-process ADDRESS UID`. `Ping` answers with the
 * caller's app as JSON. The program becomes that user only when it is connected, because the user cannot read the files
 * of the checkout.
 */
const [address = "", user = ""] = process.argv.slice(2);
const uid = Number(user);

await using bus = await openBus({ address, uid, logger: silentLogger, clock: systemClock });
bus.serve(
  CONTEXT_PATH,
  createContextInterface({ Ping: ({ caller }) => [JSON.stringify(caller.app ?? null)] }),
);
process.setgroups?.([]);
process.setgid?.(uid);
process.setuid?.(uid);
await bus.requestName(DAEMON_NAME);
process.stdout.write("ready\n");
await bus.closed;
