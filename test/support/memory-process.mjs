// A process of its own that keeps the memory of apps, for tests that kill it and take its disk away: `DIR`.
// Its ledger is a file `entries`, a line for each entry that is on the disk. Commands are lines on standard
// input, answers are lines on standard output:
//
//   set APP KEY BYTES  then `done`, or `refused CODE`
//   wipe APP           then `done`, or `refused CODE`
//   end                closes it, and ends
//
// It is the built program, which starts ten times as fast as the sources do.
import { closeSync, fsyncSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { AppMemory } from "../../dist/assistant/context/memory/app-memory.js";
import { systemClock } from "../../dist/base/clock.js";

const [dir] = process.argv.slice(2);
const caller = { connection: ":1.1", pid: process.pid, app: undefined };
const say = (line) => void process.stdout.write(`${line}\n`);

async function append({ name, fields }) {
  const handle = openSync(join(dir, "entries"), "a");
  writeSync(handle, `${name} ${fields.app}\n`);
  fsyncSync(handle);
  closeSync(handle);
  return { seq: 0, leaf: "" };
}

const memory = new AppMemory({ dir, ledger: { append }, clock: systemClock });
say(`open ${process.pid}`);

for await (const line of createInterface({ input: process.stdin })) {
  const [command, app, key, bytes] = line.split(" ");
  if (command === "end") break;
  const value = `canary-${key}-`.padEnd(Number(bytes), "v");
  const call = command === "set" ? memory.set(app, key, value, caller) : memory.wipe(app, caller);
  say(
    await call.then(
      () => "done",
      (error) => `refused ${error.code}`,
    ),
  );
}
await memory[Symbol.asyncDispose]();
// An open pipe keeps a process from ending.
process.stdin.destroy();
