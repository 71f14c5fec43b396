// Runs a companion's context service in a separate process, so that a test can kill it or limit its file watches.
// Prints the state of the index.
import { IndexedContextService } from "../../src/assistant/context/context-service.ts";
import { systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/logger.ts";

const [dir, path] = process.argv.slice(2);
const context = new IndexedContextService({
  dir,
  sources: [{ name: "notes", path }],
  embedder: undefined,
  memory: {},
  ledger: { append: () => Promise.resolve({ seq: 0, leaf: "" }) },
  clock: systemClock,
  logger: silentLogger,
  timing: { debounceMs: 20, degradedRescanMs: 300 },
});
setInterval(() => process.stdout.write(`${JSON.stringify(context.indexState())}\n`), 20);
