import { writeFileSync } from "node:fs";
import { systemClock } from "../../../../base/clock.ts";
import { AssistantError } from "../../../errors.ts";
import { LocalModel } from "../../local-model.ts";
import { inspectModel } from "../gguf/inspect.ts";
import { openLibrary, openModel } from "../library.ts";
import { LlamaRunner } from "../llama-runner.ts";
import { measureBatches } from "../threads/batch-costs.ts";
import { calibrate } from "../threads/calibrate.ts";
import type { Measured } from "../threads/calibration-cache.ts";
import { ThreadGovernor } from "../threads/governor.ts";
import { JobServer } from "./job-server.ts";
import { LeasedCores } from "./leased-cores.ts";
import { type FromChild, type Loaded, type LoadOrder, packError, type ToChild } from "./wire.ts";

/**
 * The process of one model. It holds nothing that has to be put away: whoever is done with it kills it,
 * and native code that fails takes nothing else along. It lives no longer than its parent.
 */

function send(message: FromChild): void {
  // While the channel closes nobody listens any more; `disconnect` follows.
  if (process.connected) process.send?.(message, undefined, undefined, () => {});
}

/** One line for the parent's log; see `capture` in engine-process.ts. */
function log(level: "debug" | "warn", message: string): void {
  process.stderr.write(`${level}: ${message.replaceAll(/\s*\n\s*/g, " | ")}\n`);
}

function logError(error: unknown): void {
  log("warn", error instanceof Error ? (error.stack ?? error.message) : String(error));
}

/** At once, whatever native code is in the middle of. */
function end(): void {
  process.kill(process.pid, "SIGKILL");
}

process.on("disconnect", end);
// Sent to the whole group by a terminal or a supervisor: the parent decides when models end.
process.on("SIGINT", () => {});
process.on("SIGTERM", () => {});
process.on("unhandledRejection", logError);
preferAsVictim();

const cores = new LeasedCores(send);
let jobs: JobServer | undefined;

process.on("message", (message: ToChild) => {
  switch (message.type) {
    case "load":
      void load(message.load);
      break;
    case "generate":
    case "embed":
    case "encode":
      jobs?.run(message);
      break;
    case "taken":
      jobs?.taken(message.id, message.count);
      break;
    case "cancel":
      jobs?.cancel(message.id);
      break;
    case "granted":
      cores.granted(message.id);
      break;
    case "contested":
      cores.contested(message.contested);
      break;
    default:
      send({ type: "pong" });
  }
});
send({ type: "ready" });

async function load(order: LoadOrder): Promise<void> {
  try {
    const { model, loaded } = await open(order);
    jobs = new JobServer({ model, send, onError: logError });
    send({ type: "loaded", loaded });
    const { reason } = await model.ended;
    send({ type: "broken", reason });
  } catch (error) {
    send({ type: "refused", error: packError(error, logError) });
  }
}

async function open(order: LoadOrder): Promise<{ model: LocalModel; loaded: Loaded }> {
  const never = new AbortController().signal;
  const { facts } = await inspectModel(order, never);
  const llama = await openLibrary({
    gpu: order.gpu,
    threadsMax: order.threadsMax,
    // What the library warns of concerns whoever made the file, mostly.
    log: (level, message) => log(level === "error" ? "warn" : "debug", message),
  });
  const weights = await openModel(llama, {
    path: order.path,
    onProgress: (done) => send({ type: "progress", done }),
  }).catch((error: unknown) => {
    throw unusable(order.id, error);
  });
  const threads = new ThreadGovernor({
    threadsMax: order.threadsMax,
    setThreads: (count) => {
      llama.maxThreads = count;
    },
    now: () => performance.now(),
    cpuMs: () => {
      const { user, system } = process.cpuUsage();
      return (user + system) / 1000;
    },
    onChange: ({ threads: left, stepMs }) =>
      log("warn", `a step took ${Math.round(stepMs)} ms; ${left} threads compute for a while`),
  });
  const onlyEmbeds = facts.kind === "embedding";
  const runner = await LlamaRunner.open({
    llama,
    model: weights,
    contextTokens: order.contextTokens,
    sequences: onlyEmbeds ? 0 : order.sequences,
    embeddingsAtOnce: order.embeddingsAtOnce,
    chatTemplate: facts.chatTemplate,
    now: () => Date.now(),
    threads,
  }).catch((error: unknown) => {
    throw noContext(order, error);
  });
  const now = order.measured ? undefined : await measureRunner(order, runner, threads);
  const measured = order.measured ?? now?.measured;
  if (measured) {
    threads.adopt(measured);
    runner.adoptBatchCosts(measured.batchCosts);
  }
  const count = threads.threadsOf(onlyEmbeds ? "prefill" : "decode");
  const model = new LocalModel({
    id: order.id,
    facts,
    memoryBytes: order.memoryBytes,
    threads: count,
    runner,
    cores,
    clock: systemClock,
  });
  const { sequences, contextTokens } = model;
  const loaded = { threads: count, sequences, contextTokens, measured: now?.measured };
  return { model, loaded: { ...loaded, steady: now?.steady ?? false } };
}

/** Holds the cores: beside another model's threads every measurement would be wrong. */
async function measureRunner(order: LoadOrder, runner: LlamaRunner, threads: ThreadGovernor) {
  const { signal } = new AbortController();
  await cores.hold("interactive", signal);
  try {
    const { calibration, steady } = await calibrate({
      cores: order.threadsMax,
      measure: (kind, count) => runner.measure(kind, count),
      now: () => performance.now(),
      signal,
    });
    threads.adopt(calibration);
    const batches = await measureBatches({
      sequences: runner.sequences,
      measure: (width) => runner.measureStep(width),
      signal,
    });
    const measured: Measured = { ...calibration, batchCosts: batches.costs };
    return { measured, steady: steady && batches.steady };
  } finally {
    cores.release();
  }
}

function unusable(id: string, error: unknown): AssistantError {
  logError(error);
  return new AssistantError(
    "model_unusable",
    `the file of model "${id}" cannot be loaded: llama.cpp refuses it, and the log of the assistant says why; get it again, or another one`,
    { cause: error },
  );
}

function noContext({ id, contextTokens, sequences }: LoadOrder, error: unknown): AssistantError {
  if (error instanceof AssistantError) return error;
  logError(error);
  return new AssistantError(
    "insufficient_memory",
    `model "${id}" was read, and there was no room for ${sequences} sequences of ${contextTokens} tokens; ask for a smaller context or fewer sequences`,
    { cause: error },
  );
}

/** Where memory runs out after all, a model that can be loaded again goes before the daemon does. */
function preferAsVictim(): void {
  try {
    writeFileSync("/proc/self/oom_score_adj", "500");
  } catch {
    // Not Linux, or not allowed: the kernel chooses as it likes.
  }
}
