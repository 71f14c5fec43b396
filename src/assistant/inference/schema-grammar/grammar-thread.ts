import { readFileSync } from "node:fs";
import type { Worker } from "node:worker_threads";
import type { Clock } from "../../../base/clock.ts";
import { startWorker } from "../../../base/start-worker.ts";
import type { GrammarAnswer, GrammarRequest } from "./grammar-worker-protocol.ts";

/** A schema that makes the compiler use more than this ends the thread, not the process. */
const HEAP_MAX_MB = 192;

/** The thread loads a few hundred kilobytes of code; on a busy machine that takes a while. */
const START_MAX_MS = 30_000;

export type GrammarThreadAnswer =
  | Exclude<GrammarAnswer, { type: "ready" }>
  /** The time was up, or the memory; the thread has been ended, and the next request starts another. */
  | { readonly type: "exhausted" };

/**
 * A job's limit is time on a core. On a machine that is busy with models a thread waits for its core, which
 * is no fault of the schema; for so many times its limit, and no longer.
 */
const WALL_TIME_FACTOR = 20;

interface Job {
  readonly request: GrammarRequest;
  readonly limitMs: number;
  readonly resolve: (answer: GrammarThreadAnswer) => void;
}

/**
 * Compiles and validates beside the event loop, one request after another, and ends what takes too long:
 * only a thread of its own can be stopped in the middle of a computation.
 */
export class GrammarThread {
  readonly #clock: Clock;
  readonly #jobs: Job[] = [];
  #worker: Worker | undefined;
  #isReady = false;
  #current: Job | undefined;
  #cancelTimer: (() => void) | undefined;
  #isClosed = false;
  /** Milliseconds that the thread has been on a core, when its present job began. */
  #cpuTimeBeforeMs = 0;
  #threadNumber: number | undefined;

  constructor(options: { readonly clock: Clock }) {
    this.#clock = options.clock;
  }

  /** Starts the thread, so that the first request finds it warm. */
  warm(): void {
    this.#start();
  }

  /** Waits for its turn; the limit counts from there. Never rejects. */
  submit(request: GrammarRequest, limitMs: number): Promise<GrammarThreadAnswer> {
    if (this.#isClosed) return Promise.resolve({ type: "failed", message: "it has been closed" });
    return new Promise((resolve) => {
      this.#jobs.push({ request, limitMs, resolve });
      this.#startNextJob();
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    const worker = this.#worker;
    this.#settle({ type: "failed", message: "it has been closed" });
    for (const job of this.#jobs.splice(0)) {
      job.resolve({ type: "failed", message: "it has been closed" });
    }
    this.#clearWorker();
    await worker?.terminate();
  }

  #startNextJob(): void {
    if (this.#current || this.#isClosed || this.#jobs.length === 0) return;
    this.#start();
    if (!this.#isReady) return;
    const job = this.#jobs.shift();
    if (!job) return;
    this.#current = job;
    this.#cpuTimeBeforeMs = this.#readCpuTimeMs() ?? 0;
    this.#watchLimit(job, job.limitMs, this.#clock.now() + WALL_TIME_FACTOR * job.limitMs);
    this.#worker?.ref();
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
    this.#worker?.postMessage(job.request);
  }

  /** Looks again as soon as the limit may have been reached. */
  #watchLimit(job: Job, againMs: number, wallEnd: number): void {
    this.#cancelTimer = this.#clock.setTimer(againMs, () => {
      const spent = this.#readCpuTimeMs();
      const left = spent === undefined ? 0 : job.limitMs - (spent - this.#cpuTimeBeforeMs);
      if (left <= 0 || this.#clock.now() >= wallEnd) this.#terminateWorker();
      else this.#watchLimit(job, Math.max(5, left), wallEnd);
    });
  }

  /** Undefined where the system does not say: then the limit is wall time. */
  #readCpuTimeMs(): number | undefined {
    if (this.#threadNumber === undefined) return undefined;
    try {
      const [nanoseconds] = readFileSync(
        `/proc/self/task/${this.#threadNumber}/schedstat`,
        "utf8",
      ).split(" ");
      return Number(nanoseconds) / 1e6;
    } catch {
      return undefined;
    }
  }

  #start(): void {
    if (this.#worker || this.#isClosed) return;
    const worker = startWorker("grammar-worker", import.meta.url, {
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MAX_MB },
    });
    this.#worker = worker;
    this.#cancelTimer = this.#clock.setTimer(START_MAX_MS, () => this.#terminateWorker());
    worker.on("message", (answer: GrammarAnswer) => {
      if (worker !== this.#worker) return;
      this.#cancelTimer?.();
      if (answer.type === "ready") {
        this.#isReady = true;
        this.#threadNumber = answer.thread;
        // An idle compiler keeps no process from ending.
        worker.unref();
      } else this.#settle(answer);
      this.#startNextJob();
    });
    // Out of memory, or unable to load; `exit` follows.
    worker.on("error", () => this.#onWorkerEnded(worker));
    worker.once("exit", () => this.#onWorkerEnded(worker));
  }

  #settle(answer: GrammarThreadAnswer): void {
    this.#cancelTimer?.();
    const job = this.#current;
    this.#current = undefined;
    this.#worker?.unref();
    job?.resolve(answer);
  }

  #terminateWorker(): void {
    const worker = this.#worker;
    if (!worker) return;
    this.#onWorkerEnded(worker);
    worker.terminate().catch(() => {});
  }

  #onWorkerEnded(worker: Worker): void {
    if (worker !== this.#worker) return;
    const wasReady = this.#isReady;
    this.#clearWorker();
    // A thread that does not come up would not come up for the next request either.
    if (!wasReady) this.#current ??= this.#jobs.shift();
    this.#settle(wasReady ? { type: "exhausted" } : { type: "failed", message: "no thread" });
    this.#startNextJob();
  }

  #clearWorker(): void {
    this.#cancelTimer?.();
    this.#worker = undefined;
    this.#isReady = false;
    this.#threadNumber = undefined;
  }
}
