// A separate process that stores the memory of apps in a folder, its only argument, for tests that kill it or make its
// disk fail. Its ledger is the file `entries` in that folder, with one line for each entry on the disk. Commands are
// lines on standard input, and answers are lines on standard output:
//
//   set APP KEY BYTES  stores a value; prints `done` or `refused CODE`
//   wipe APP           deletes the memory of an app; prints `done` or `refused CODE`
//   end                closes the memory, and exits
//
// Tests run it as a bundle, which starts fast.
import { closeSync, fsyncSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { AppMemory } from "../../src/assistant/context/memory/app-memory.ts";
import { systemClock } from "../../src/base/clock.ts";

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
// Standard input is closed, because an open pipe would keep the process running.
process.stdin.destroy();
