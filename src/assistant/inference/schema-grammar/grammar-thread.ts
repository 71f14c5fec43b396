import { readFileSync } from "node:fs";
import type { Worker } from "node:worker_threads";
import type { Clock } from "../../../base/clock.ts";
import { startWorker } from "../../../base/start-worker.ts";
import type { GrammarAnswer, GrammarRequest } from "./grammar-worker-protocol.ts";

/** If a schema makes the compiler use more memory than this, the thread ends, not the process. */
const HEAP_MAX_MB = 192;

/** The time limit for loading the thread's code, a few hundred kilobytes, which can take long on a busy machine. */
const START_MAX_MS = 30_000;

export type GrammarThreadAnswer =
  | Exclude<GrammarAnswer, { type: "ready" }>
  /** The job exceeded its time or memory; its thread has ended, and the next request starts another. */
  | { readonly type: "exhausted" };

/**
 * A job's limit is CPU time, because the thread may wait for a core while models compute. The wall time is
 * limited to this multiple of the CPU time.
 */
const WALL_TIME_FACTOR = 20;

interface Job {
  readonly request: GrammarRequest;
  readonly limitMs: number;
  readonly resolve: (answer: GrammarThreadAnswer) => void;
}

/**
 * Compiles and validates in a worker thread, one request after another. Terminates the thread if a request
 * exceeds its limit, because a computation in the main thread cannot be interrupted.
 */
export class GrammarThread {
  readonly #clock: Clock;
  readonly #jobs: Job[] = [];
  #worker: Worker | undefined;
  #isReady = false;
  #current: Job | undefined;
  #cancelTimer: (() => void) | undefined;
  #isClosed = false;
  /** The CPU time of the thread in milliseconds when the current job began. */
  #cpuTimeBeforeMs = 0;
  #threadNumber: number | undefined;

  constructor(options: { readonly clock: Clock }) {
    this.#clock = options.clock;
  }

  /** Starts the thread before the first request. */
  warm(): void {
    this.#start();
  }

  /** Queues a request. The time in the queue does not count towards the limit of the request. Never rejects. */
  submit(request: GrammarRequest, limitMs: number): Promise<GrammarThreadAnswer> {
    if (this.#isClosed)
      return Promise.resolve({ type: "failed", message: "the grammar thread is closed" });
    return new Promise((resolve) => {
      this.#jobs.push({ request, limitMs, resolve });
      this.#startNextJob();
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    const worker = this.#worker;
    this.#settle({ type: "failed", message: "the grammar thread is closed" });
    for (const job of this.#jobs.splice(0)) {
      job.resolve({ type: "failed", message: "the grammar thread is closed" });
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

  /** Checks the CPU time again at the earliest time at which the limit can be reached. */
  #watchLimit(job: Job, againMs: number, wallEnd: number): void {
    this.#cancelTimer = this.#clock.setTimer(againMs, () => {
      const spent = this.#readCpuTimeMs();
      const left = spent === undefined ? 0 : job.limitMs - (spent - this.#cpuTimeBeforeMs);
      if (left <= 0 || this.#clock.now() >= wallEnd) this.#terminateWorker();
      else this.#watchLimit(job, Math.max(5, left), wallEnd);
    });
  }

  /**
   * Returns the CPU time of the thread; undefined if the system does not report it, and the limit is then wall time.
   */
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
        // An idle thread must not keep the process running.
        worker.unref();
      } else this.#settle(answer);
      this.#startNextJob();
    });
    // The thread emits `error` if it runs out of memory or fails to load, and then `exit`. `#onWorkerEnded` ignores the
    // second event.
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
    // If the thread failed to start, the first queued request fails too, so that starts do not repeat forever.
    if (!wasReady) this.#current ??= this.#jobs.shift();
    this.#settle(
      wasReady
        ? { type: "exhausted" }
        : { type: "failed", message: "the grammar thread could not be started" },
    );
    this.#startNextJob();
  }

  #clearWorker(): void {
    this.#cancelTimer?.();
    this.#worker = undefined;
    this.#isReady = false;
    this.#threadNumber = undefined;
  }
}
