import type { Worker } from "node:worker_threads";
import { startWorker } from "../../../base/start-worker.ts";
import type { SearchHit } from "../port.ts";
import type {
  IndexWorkerData,
  IndexWorkerMessage,
  IndexWorkerRequest,
  VectorSpaceState,
} from "./index-protocol.ts";

export interface IndexThreadListener {
  onState(message: Extract<IndexWorkerMessage, { type: "state" }>): void;
  onLog(message: Extract<IndexWorkerMessage, { type: "log" }>): void;
  /** Called when the index requests vectors for texts. The listener answers with `sendVectors`. */
  onVectorsWanted(texts: readonly string[]): void;
  /** Called when the thread has ended unexpectedly. This object cannot be used afterwards. */
  onEnd(detail: string): void;
}

interface PendingRequest {
  readonly resolve: (hits: readonly SearchHit[]) => void;
  readonly reject: (error: Error) => void;
}

/** A promise interface to the index's worker thread. Several requests may be pending at once. */
export class IndexThread {
  readonly #worker: Worker;
  readonly #listener: IndexThreadListener;
  readonly #pending = new Map<number, PendingRequest>();
  #lastId = 0;
  #hasEnded = false;
  #onClosed: (() => void) | undefined;
  readonly #ended: Promise<void>;

  constructor(data: IndexWorkerData, listener: IndexThreadListener) {
    this.#listener = listener;
    this.#worker = startWorker("index-worker", import.meta.url, { workerData: data });
    this.#worker.on("message", (message: IndexWorkerMessage) => this.#onMessage(message));
    this.#worker.on("error", (error) => this.#onEnded(error.message));
    this.#ended = new Promise((resolve) => {
      this.#worker.once("exit", (code) => {
        this.#onEnded(`exit code ${code}`);
        resolve();
      });
    });
    // The thread is unreferenced, because an idle index must not keep the process running.
    this.#worker.unref();
  }

  /**
   * Searches the index. Rejects with the signal's reason when it aborts; the thread then skips the search if it has
   * not begun.
   */
  async search(
    query: Omit<Extract<IndexWorkerRequest, { type: "search" }>, "type" | "id">,
    signal: AbortSignal,
  ): Promise<readonly SearchHit[]> {
    signal.throwIfAborted();
    this.#lastId += 1;
    const id = this.#lastId;
    const onAbort = () => {
      this.#removePending(id)?.reject(signal.reason);
      this.#post({ type: "cancel", id });
    };
    signal.addEventListener("abort", onAbort, { once: true });
    try {
      return await this.#request({ type: "search", id, ...query });
    } finally {
      signal.removeEventListener("abort", onAbort);
    }
  }

  sendVectors(vectors: readonly Float32Array[] | undefined): void {
    this.#post({ type: "vectors", vectors });
  }

  setEmbedder(embedder: VectorSpaceState): void {
    this.#post({ type: "embedder", embedder });
  }

  /** Ends the thread and waits until the database is closed. */
  async close(): Promise<void> {
    if (!this.#hasEnded) {
      const closed = new Promise<void>((resolve) => (this.#onClosed = resolve));
      this.#worker.ref();
      this.#post({ type: "close" });
      await Promise.race([closed, this.#ended]);
      this.#hasEnded = true;
    }
    await this.#worker.terminate();
    this.#rejectAll("it was closed");
  }

  #request(
    request: Extract<IndexWorkerRequest, { type: "search" }>,
  ): Promise<readonly SearchHit[]> {
    if (this.#hasEnded) return Promise.reject(new Error("the index's thread has ended"));
    return new Promise((resolve, reject) => {
      this.#pending.set(request.id, { resolve, reject });
      this.#worker.ref();
      this.#post(request);
    });
  }

  #post(request: IndexWorkerRequest): void {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
    this.#worker.postMessage(request);
  }

  #onMessage(message: IndexWorkerMessage): void {
    if (message.type === "state") this.#listener.onState(message);
    else if (message.type === "log") this.#listener.onLog(message);
    else if (message.type === "wanted") this.#listener.onVectorsWanted(message.texts);
    else if (message.type === "closed") this.#onClosed?.();
    else if (message.type === "failed")
      this.#removePending(message.id)?.reject(new Error(message.detail));
    else this.#removePending(message.id)?.resolve(message.hits);
  }

  #removePending(id: number): PendingRequest | undefined {
    const request = this.#pending.get(id);
    this.#pending.delete(id);
    if (this.#pending.size === 0) this.#worker.unref();
    return request;
  }

  #onEnded(detail: string): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#rejectAll(detail);
    this.#listener.onEnd(detail);
  }

  #rejectAll(detail: string): void {
    for (const id of this.#pending.keys())
      this.#removePending(id)?.reject(new Error(`the index's thread has ended: ${detail}`));
  }
}
