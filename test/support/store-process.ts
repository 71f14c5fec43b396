import { systemClock } from "../../src/base/clock.ts";
import { openStore } from "../../src/store/sqlite-store.ts";

/**
 * A separate process that opens a store, for tests that kill it.
 *
 * `hold DIR` opens the store, prints `open`, and keeps the store open. `write DIR` also applies Apps one by one, and
 * prints the name of each App when its write has returned.
 */
const [mode, dataDir] = process.argv.slice(2);
if (dataDir === undefined) throw new Error("usage: store-process.ts hold|write DIR");

const store = openStore({ dataDir, clock: systemClock });
process.stdout.write("open\n");

function writeNext(number: number): void {
  const name = `app-${number}`;
  store.apply({
    kind: "App",
    name,
    manager: "api",
    actor: { name: "user:admin" },
    mode: "merge",
    spec: { image: "nginx:1", env: { NUMBER: String(number) } },
  });
  process.stdout.write(`${name}\n`);
  setImmediate(writeNext, number + 1);
}

if (mode === "write") writeNext(1);
else process.stdin.resume();
