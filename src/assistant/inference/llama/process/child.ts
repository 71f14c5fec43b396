import { writeFileSync } from "node:fs";
import { systemClock } from "../../../../base/clock.ts";
import { AssistantError } from "../../../assistant-error.ts";
import { InProcessModel } from "../../in-process-model.ts";
import { inspectModel } from "../gguf/inspect-model.ts";
import { openLibrary, openModel } from "../llama-library.ts";
import { LlamaRunner } from "../llama-runner.ts";
import { calibrate } from "../threads/calibrate.ts";
import type { Measurements } from "../threads/calibration-cache.ts";
import { measureBatches } from "../threads/measure-batches.ts";
import { ThreadGovernor } from "../threads/thread-governor.ts";
import { CoreLeaseChild } from "./core-lease-child.ts";
import {
  type FromChild,
  type LoadParams,
  type LoadResult,
  serializeError,
  type ToChild,
} from "./ipc.ts";
import { JobServer } from "./job-server.ts";

/**
 * The process of one model. It has no state to save, so the parent simply kills it, and a crash of native
 * code affects nothing else. It ends when its parent ends.
 */

function send(message: FromChild): void {
  // While the channel closes, messages have no receiver. Errors of sending are ignored, because the event
  // `disconnect` follows.
  if (process.connected) process.send?.(message, undefined, undefined, () => {});
}

/** Writes one line for the parent's log; see `logOutput` in engine-process.ts. */
function log(level: "debug" | "warn", message: string): void {
  process.stderr.write(`${level}: ${message.replaceAll(/\s*\n\s*/g, " | ")}\n`);
}

function logError(error: unknown): void {
  log("warn", error instanceof Error ? (error.stack ?? error.message) : String(error));
}

/** Ends this process at once, even while native code runs. */
function killSelf(): void {
  process.kill(process.pid, "SIGKILL");
}

process.on("disconnect", killSelf);
// A terminal or a supervisor signals the whole process group. This process ignores such signals, because the parent
// decides when models end.
process.on("SIGINT", () => {});
process.on("SIGTERM", () => {});
process.on("unhandledRejection", (error) => {
  logError(error);
  loadedRunner?.reportLostRejection(error);
});
raiseOomScore();

const cores = new CoreLeaseChild(send);
let loadedRunner: LlamaRunner | undefined;
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
    case "credit":
      jobs?.addCredit(message.id, message.count);
      break;
    case "cancel":
      jobs?.cancel(message.id);
      break;
    case "granted":
      cores.onGranted(message.id);
      break;
    case "contested":
      cores.setContested(message.contested);
      break;
    default:
      send({ type: "pong" });
  }
});
send({ type: "ready" });

async function load(params: LoadParams): Promise<void> {
  try {
    const { model, loaded } = await openLocalModel(params);
    jobs = new JobServer({ model, send, onError: logError });
    send({ type: "loaded", loaded });
    const { reason } = await model.ended;
    send({ type: "broken", reason });
  } catch (error) {
    send({ type: "refused", error: serializeError(error, logError) });
  }
}

async function openLocalModel(
  params: LoadParams,
): Promise<{ model: InProcessModel; loaded: LoadResult }> {
  const never = new AbortController().signal;
  const { facts } = await inspectModel(params, never);
  const llama = await openLibrary({
    gpu: params.gpu,
    threadsMax: params.threadsMax,
    // Only errors that llama.cpp reports are logged as warnings: most of its warnings concern the publisher of the
    // model file, not the user.
    log: (level, message) => log(level === "error" ? "warn" : "debug", message),
  });
  const weights = await openModel(llama, {
    path: params.path,
    onProgress: (done) => send({ type: "progress", done }),
  }).catch((error: unknown) => {
    throw unusableFileError(params.id, error);
  });
  const threads = new ThreadGovernor({
    threadsMax: params.threadsMax,
    setThreads: (count) => {
      llama.maxThreads = count;
    },
    now: () => performance.now(),
    cpuMs: () => {
      const { user, system } = process.cpuUsage();
      return (user + system) / 1000;
    },
    onChange: ({ threads: remaining, stepMs }) =>
      log(
        "warn",
        `a decoding step took ${Math.round(stepMs)} ms; the model computes with ${remaining} threads for a while`,
      ),
  });
  const onlyEmbeds = facts.kind === "embedding";
  const opened = await LlamaRunner.open({
    llama,
    model: weights,
    contextTokens: params.contextTokens,
    sequences: onlyEmbeds ? 0 : params.sequences,
    embeddingsAtOnce: params.embeddingsAtOnce,
    chatTemplate: facts.chatTemplate,
    isDeterministic: params.isDeterministic,
    now: () => Date.now(),
    threads,
  }).catch((error: unknown) => {
    throw contextMemoryError(params, error);
  });
  loadedRunner = opened;
  const now = params.measured ? undefined : await measureRunner(params, opened, threads);
  const measured = params.measured ?? now?.measured;
  if (measured) {
    threads.adopt(measured);
    opened.adoptBatchCosts(measured.batchCosts);
  }
  const count = threads.getThreads(onlyEmbeds ? "prefill" : "decode");
  const model = new InProcessModel({
    id: params.id,
    facts,
    memoryBytes: params.memoryBytes,
    threads: count,
    runner: opened,
    cores,
    clock: systemClock,
  });
  const { sequences, contextTokens } = model;
  const loaded = { threads: count, sequences, contextTokens, measured: now?.measured };
  return { model, loaded: { ...loaded, steady: now?.steady ?? false } };
}

/**
 * Measures the fastest thread counts and the duration of batches. Holds the lease on the CPU cores meanwhile, because
 * another model's threads would distort the results.
 */
async function measureRunner(params: LoadParams, runner: LlamaRunner, threads: ThreadGovernor) {
  const { signal } = new AbortController();
  await cores.hold("interactive", signal);
  try {
    const { calibration, steady } = await calibrate({
      cores: params.threadsMax,
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
    const measured: Measurements = { ...calibration, batchCosts: batches.costs };
    return { measured, steady: steady && batches.steady };
  } finally {
    cores.release();
  }
}

function unusableFileError(id: string, error: unknown): AssistantError {
  logError(error);
  return new AssistantError(
    "model_unusable",
    `the file of model "${id}" cannot be loaded: llama.cpp refuses it, and the assistant's log has the reason; download it again, or use another file`,
    { cause: error },
  );
}

function contextMemoryError(
  { id, contextTokens, sequences }: LoadParams,
  error: unknown,
): AssistantError {
  if (error instanceof AssistantError) return error;
  logError(error);
  return new AssistantError(
    "insufficient_memory",
    `model "${id}" was loaded, but there is not enough memory for ${sequences} sequences of ${contextTokens} tokens; choose a smaller context or fewer sequences`,
    { cause: error },
  );
}

/**
 * Raises the OOM score of this process, so that the kernel kills a model, which can be loaded again, before the daemon.
 */
function raiseOomScore(): void {
  try {
    writeFileSync("/proc/self/oom_score_adj", "500");
  } catch {
    // The system is not Linux or does not permit a higher OOM score. The kernel may then kill the daemon before a
    // model.
  }
}
