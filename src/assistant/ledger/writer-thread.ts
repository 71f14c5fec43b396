import type { Worker } from "node:worker_threads";
import { startWorker } from "../../base/start-worker.ts";
import type {
  WriterAnswer,
  WriterData,
  WriterFailedEvent,
  WriterRequest,
} from "./writer-protocol.ts";

/**
 * The writer's thread as promises. One request at a time. A thread that ends answers what is open with
 * `failed`, and tells `onFallen` once; it is then of no more use.
 */
export class WriterThread {
  readonly #worker: Worker;
  readonly #onFailed: (fallen: WriterFailedEvent) => void;
  #pending: ((answer: WriterAnswer) => void) | undefined;
  #hasEnded = false;
  readonly #ended: Promise<void>;

  constructor(data: WriterData, onFallen: (fallen: WriterFailedEvent) => void) {
    this.#worker = startWorker("writer-worker", import.meta.url, { workerData: data });
    this.#onFailed = onFallen;
    this.#worker.on("message", (message: WriterAnswer | WriterFailedEvent) => {
      if (message.type === "writer_failed") onFallen(message);
      else this.#settle(message);
    });
    this.#worker.on("error", (error) => this.#onEnded(error.message));
    this.#ended = new Promise((resolve) => {
      this.#worker.once("exit", (code) => {
        this.#onEnded(`exit code ${code}`);
        resolve();
      });
    });
    // An idle ledger keeps no process from ending.
    this.#worker.unref();
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  ask(request: WriterRequest): Promise<WriterAnswer> {
    if (this.#hasEnded) return Promise.resolve(threadEnded("it is not running"));
    return new Promise((resolve) => {
      this.#pending = resolve;
      this.#worker.ref();
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
      this.#worker.postMessage(request);
    });
  }

  /** After `close` was answered, or at once where it is not to be waited for. */
  async terminate(): Promise<void> {
    this.#hasEnded = true;
    await this.#worker.terminate();
    await this.#ended;
  }

  #settle(answer: WriterAnswer): void {
    const resolve = this.#pending;
    this.#pending = undefined;
    this.#worker.unref();
    resolve?.(answer);
  }

  #onEnded(detail: string): void {
    if (this.#hasEnded) return this.#settle(threadEnded(detail));
    this.#hasEnded = true;
    const failure = threadEnded(detail);
    this.#settle(failure);
    this.#onFailed({ type: "writer_failed", failure });
  }
}

function threadEnded(detail: string) {
  const message = "the ledger's writer has ended";
  return { type: "failed", kind: "io", message, hint: undefined, detail } as const;
}
