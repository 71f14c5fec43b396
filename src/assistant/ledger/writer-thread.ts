import type { Worker } from "node:worker_threads";
import { startWorker } from "../../base/start-worker.ts";
import type {
  WriterAnswer,
  WriterData,
  WriterFailedEvent,
  WriterRequest,
} from "./writer-protocol.ts";

/**
 * A promise interface to the writer's thread, for one request at a time. When the thread ends, the pending request is
 * answered with `failed`, `onFailed` is called once, and the object cannot be used any longer.
 */
export class WriterThread {
  readonly #worker: Worker;
  readonly #onFailed: (event: WriterFailedEvent) => void;
  #pending: ((answer: WriterAnswer) => void) | undefined;
  #hasEnded = false;
  readonly #ended: Promise<void>;

  constructor(data: WriterData, onFailed: (event: WriterFailedEvent) => void) {
    this.#worker = startWorker("writer-worker", import.meta.url, { workerData: data });
    this.#onFailed = onFailed;
    this.#worker.on("message", (message: WriterAnswer | WriterFailedEvent) => {
      if (message.type === "writer_failed") onFailed(message);
      else this.#settle(message);
    });
    this.#worker.on("error", (error) => this.#onEnded(error.message));
    this.#ended = new Promise((resolve) => {
      this.#worker.once("exit", (code) => {
        this.#onEnded(`exit code ${code}`);
        resolve();
      });
    });
    // The thread is unreferenced, because an idle ledger must not keep the process running.
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

  /** Ends the thread. Call this after `close` was answered, unless the answer does not matter. */
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
