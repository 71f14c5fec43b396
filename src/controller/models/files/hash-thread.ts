import type { Worker } from "node:worker_threads";
import { startWorker } from "../../../base/start-worker.ts";
import type { DigestRequest, Digests } from "./file-digest.ts";
import type { HashAnswer, HashRequest } from "./hash-worker-protocol.ts";

/** One file that is read and hashed, from its beginning on, as far as it is there. */
export interface HashJob {
  /** The first `upTo` bytes may be read. Less than before does nothing. */
  advance(upTo: number): void;
  /** All of it is there. Rejects where it cannot be read, is shorter, or when the signal aborts. */
  finish(sizeBytes: number, onRead: (bytes: number) => void, signal: AbortSignal): Promise<Digests>;
  cancel(): void;
}

interface PendingJob {
  settle: ((answer: HashAnswer) => void) | undefined;
  onRead: (bytes: number) => void;
  /** What came before anybody waited for it. */
  earlyAnswer: HashAnswer | undefined;
}

/**
 * Hashes in a thread of its own: a gigabyte takes a core for a second, which the control plane has other
 * uses for. The thread lives as long as there are jobs.
 */
export class HashThread implements AsyncDisposable {
  readonly #jobs = new Map<number, PendingJob>();
  #worker: Worker | undefined;
  #last = 0;

  open(path: string, wanted: DigestRequest): HashJob {
    this.#last += 1;
    const job = this.#last;
    const waiting: PendingJob = { settle: undefined, onRead: () => {}, earlyAnswer: undefined };
    this.#jobs.set(job, waiting);
    this.#send({ type: "open", job, path, wanted });
    const cancel = () => {
      this.#send({ type: "cancel", job });
      this.#forget(job);
    };
    return {
      advance: (upTo) => this.#send({ type: "advance", job, upTo }),
      cancel,
      finish: (sizeBytes, onRead, signal) =>
        new Promise((resolve, reject) => {
          const onAbort = () => {
            cancel();
            reject(signal.reason);
          };
          const settle = (answer: HashAnswer) => {
            signal.removeEventListener("abort", onAbort);
            if (answer.type === "digests") resolve(answer.digests);
            else reject(new Error(`a file could not be hashed: ${describeAnswer(answer)}`));
          };
          if (signal.aborted) return onAbort();
          if (waiting.earlyAnswer) return settle(waiting.earlyAnswer);
          signal.addEventListener("abort", onAbort, { once: true });
          waiting.settle = settle;
          waiting.onRead = onRead;
          this.#send({ type: "finish", job, sizeBytes });
        }),
    };
  }

  #send(request: HashRequest): void {
    if (!this.#jobs.has(request.job)) return;
    this.#worker ??= this.#start();
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
    this.#worker.postMessage(request);
  }

  #start(): Worker {
    const worker = startWorker("hash-worker", import.meta.url);
    worker.on("message", (answer: HashAnswer) => this.#receive(answer));
    worker.on("error", (error) => {
      if (this.#worker === worker) this.#worker = undefined;
      for (const job of this.#jobs.keys())
        this.#receive({ type: "failed", job, message: error.message });
    });
    // What waits for an answer keeps the process alive, as far as it should be.
    worker.unref();
    return worker;
  }

  #receive(answer: HashAnswer): void {
    const waiting = this.#jobs.get(answer.job);
    if (!waiting) return;
    if (answer.type === "read") {
      waiting.onRead(answer.bytes);
      return;
    }
    waiting.earlyAnswer = answer;
    waiting.settle?.(answer);
    this.#forget(answer.job);
  }

  #forget(job: number): void {
    this.#jobs.delete(job);
    if (this.#jobs.size > 0) return;
    // The next job may come at once; then it has a thread of its own.
    void this.#worker?.terminate();
    this.#worker = undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const worker = this.#worker;
    this.#worker = undefined;
    for (const job of this.#jobs.keys())
      this.#receive({ type: "failed", job, message: "Berth is ending" });
    await worker?.terminate();
  }
}

function describeAnswer(answer: HashAnswer): string {
  return answer.type === "failed" ? answer.message : "it answered something else";
}
