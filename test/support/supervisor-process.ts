import { join } from "node:path";
import { systemClock } from "../../src/base/clock.ts";
import { createLogger } from "../../src/base/logger.ts";
import { packageRoot } from "../../src/base/package-root.ts";
import { createChildEnvironment } from "../../src/config/config.ts";
import { AssistantSupervisor } from "../../src/controller/models/assistant/assistant-supervisor.ts";
import { ControlTransport } from "../../src/controller/models/assistant/control-transport.ts";

/**
 * A separate process that supervises the real assistant, for tests that kill it: `DIR PORT`. Prints each report as a
 * line of JSON, and exits at SIGTERM.
 */
const [dataDir, port] = process.argv.slice(2);
if (dataDir === undefined) throw new Error("usage: supervisor-process.ts DIR PORT");

const logger = createLogger({ format: "json" });
const calls = new ControlTransport({ dataDir });
const supervisor = new AssistantSupervisor({
  program: [process.execPath, join(packageRoot, "bin/berth")],
  settings: { port: Number(port), dataDir, memoryBytesMax: undefined },
  owner: "a-test",
  environment: createChildEnvironment(),
  version: "1.0.0",
  logFormat: "json",
  logLevel: "info",
  transport: calls,
  clock: systemClock,
  logger,
  onChange: (report, event) =>
    process.stdout.write(`${JSON.stringify({ ...report, event: event?.reason ?? null })}\n`),
});
supervisor.start();
const alive = setInterval(() => {}, 60_000);
process.once("SIGTERM", () => {
  void supervisor[Symbol.asyncDispose]().then(() => clearInterval(alive));
});
