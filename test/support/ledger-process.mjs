// A separate process that writes the ledger in a folder, its only argument, for tests that kill it or make its disk
// fail. Commands are lines on standard input, and answers are lines on standard output:
//
//   append COUNT BYTES  appends COUNT entries at once; prints `ack SEQ LEAF` or `refused CODE` for each, then `done`
//   checkpoint          writes a checkpoint; prints `done` or `refused CODE`
//   encrypt             encrypts all sealed texts; prints `done` or `refused CODE`
//   erase               erases all sealed texts; prints `done` or `refused CODE`
//   state               prints the state as JSON
//   end                 closes the ledger, and exits
//
// Tests run this program as a bundle with the worker of the ledger, like the built Berth, because a bundle starts fast.
import { createInterface } from "node:readline";
import { openLedger } from "../../src/assistant/ledger/ledger.ts";
import { listTextKeySources } from "../../src/assistant/ledger/text-master-key.ts";
import { TextProtection } from "../../src/assistant/ledger/text-protection.ts";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/logger.ts";

const [dir] = process.argv.slice(2);
const say = (line) => void process.stdout.write(`${line}\n`);
const refusal = (error) => {
  if (error.name !== "AssistantError") throw error;
  say(`refused ${error.code}`);
};

const ledger = await openLedger({ dir, clock: systemClock });
const sources = (id) => listTextKeySources({ dir, environment: {} }, id);
const protection = new TextProtection({
  ledger,
  sources,
  clock: systemClock,
  logger: silentLogger,
});
say(`open ${process.pid}`);

async function append(text) {
  try {
    const receipt = await ledger.append({ name: "memory.set", fields: { text }, sealed: text });
    say(`ack ${receipt.seq} ${receipt.leaf}`);
  } catch (error) {
    refusal(error);
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const [command, count = "1", bytes = "1"] = line.split(" ");
  if (command === "state") say(JSON.stringify(ledger.state));
  else if (command === "end") break;
  else if (command === "checkpoint") await ledger.checkpoint().then(() => say("done"), refusal);
  else if (command === "encrypt") await protection.protect().then(() => say("done"), refusal);
  else if (command === "erase")
    await ledger.eraseBefore(Date.now() + 1).then(() => say("done"), refusal);
  else {
    const text = "x".repeat(Number(bytes));
    await Promise.all(Array.from({ length: Number(count) }, () => append(text)));
    say("done");
  }
}
await ledger[Symbol.asyncDispose]();
// Standard input is closed, because an open pipe would keep the process running.
process.stdin.destroy();
