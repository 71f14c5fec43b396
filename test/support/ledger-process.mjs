// A process of its own that writes a ledger, for tests that kill it and take its disk away: `DIR`.
// Commands are lines on standard input, answers are lines on standard output:
//
//   append COUNT BYTES  appends at once; a line `ack SEQ LEAF` or `refused CODE` each, then `done`
//   checkpoint          then `done`, or `refused CODE`
//   state               the state as JSON
//   end                 closes it, and ends
//
// It is the built program that is killed, with its worker as it is shipped; and it starts ten times as
// fast as the sources do, which counts where each system call is one start.
import { createInterface } from "node:readline";
import { openLedger } from "../../dist/assistant/ledger/ledger.js";
import { systemClock } from "../../dist/base/clock.js";

const [dir] = process.argv.slice(2);
const say = (line) => void process.stdout.write(`${line}\n`);
const refusal = (error) => {
  if (error.name !== "AssistantError") throw error;
  say(`refused ${error.code}`);
};

const ledger = await openLedger({ dir, clock: systemClock });
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
  else {
    const text = "x".repeat(Number(bytes));
    await Promise.all(Array.from({ length: Number(count) }, () => append(text)));
    say("done");
  }
}
await ledger[Symbol.asyncDispose]();
// An open pipe keeps a process from ending.
process.stdin.destroy();
