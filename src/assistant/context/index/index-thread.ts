import type { Worker } from "node:worker_threads";
import { startWorker } from "../../../base/start-worker.ts";
import type { SearchHit } from "../port.ts";
import type { SpaceState, WorkerData, WorkerMessage, WorkerRequest } from "./worker-protocol.ts";

export interface ThreadEvents {
  onState(message: Extract<WorkerMessage, { type: "state" }>): void;
  onLog(message: Extract<WorkerMessage, { type: "log" }>): void;
  /** The index asks for the vectors of texts; it is answered by `answerWanted`. */
  onWanted(texts: readonly string[]): void;
  /** The thread has ended of its own accord and is of no more use. */
  onEnd(detail: string): void;
}

interface Waiting {
  readonly resolve: (message: Extract<WorkerMessage, { id: number }>) => void;
  readonly reject: (error: Error) => void;
}

/** The index's thread as promises. Many questions may be open at once; each is answered by its number. */
export class IndexThread {
  readonly #worker: Worker;
  readonly #events: ThreadEvents;
  readonly #waiting = new Map<number, Waiting>();
  #last = 0;
  #hasEnded = false;
  #onClosed: (() => void) | undefined;
  readonly #ended: Promise<void>;

  constructor(data: WorkerData, events: ThreadEvents) {
    this.#events = events;
    this.#worker = startWorker("index-worker", import.meta.url, { workerData: data });
    this.#worker.on("message", (message: WorkerMessage) => this.#hear(message));
    this.#worker.on("error", (error) => this.#end(error.message));
    this.#ended = new Promise((resolve) => {
      this.#worker.once("exit", (code) => {
        this.#end(`exit code ${code}`);
        resolve();
      });
    });
    // An index at rest keeps no process from ending.
    this.#worker.unref();
  }

  get open(): number {
    return this.#waiting.size;
  }

  /** Rejects with the signal's reason once it aborts; the thread then leaves the search out if it can. */
  async search(
    order: Omit<Extract<WorkerRequest, { type: "search" }>, "type" | "id">,
    signal: AbortSignal,
  ): Promise<readonly SearchHit[]> {
    signal.throwIfAborted();
    const id = this.#number();
    const onAbort = () => {
      this.#settle(id)?.reject(signal.reason);
      this.#post({ type: "cancel", id });
    };
    signal.addEventListener("abort", onAbort, { once: true });
    try {
      const answer = await this.#ask({ type: "search", id, ...order });
      return answer.type === "hits" ? answer.hits : [];
    } finally {
      signal.removeEventListener("abort", onAbort);
    }
  }

  /** Undefined: the corpus has taught nothing yet. */
  async embed(texts: readonly string[]): Promise<readonly Float32Array[] | undefined> {
    const answer = await this.#ask({ type: "embed", id: this.#number(), texts });
    return answer.type === "embedded" ? answer.vectors : undefined;
  }

  answerWanted(vectors: readonly Float32Array[] | undefined): void {
    this.#post({ type: "vectors", vectors });
  }

  useEmbedder(embedder: SpaceState): void {
    this.#post({ type: "embedder", embedder });
  }

  /** Waits until the database is closed. */
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

  #ask(
    request: Extract<WorkerRequest, { id: number; type: "search" | "embed" }>,
  ): Promise<Extract<WorkerMessage, { id: number }>> {
    if (this.#hasEnded) return Promise.reject(new Error("the index's thread has ended"));
    return new Promise((resolve, reject) => {
      this.#waiting.set(request.id, { resolve, reject });
      this.#worker.ref();
      this.#post(request);
    });
  }

  #number(): number {
    this.#last += 1;
    return this.#last;
  }

  #post(request: WorkerRequest): void {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
    this.#worker.postMessage(request);
  }

  #hear(message: WorkerMessage): void {
    if (message.type === "state") this.#events.onState(message);
    else if (message.type === "log") this.#events.onLog(message);
    else if (message.type === "wanted") this.#events.onWanted(message.texts);
    else if (message.type === "closed") this.#onClosed?.();
    else if (message.type === "failed") this.#settle(message.id)?.reject(new Error(message.detail));
    else this.#settle(message.id)?.resolve(message);
  }

  #settle(id: number): Waiting | undefined {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (this.#waiting.size === 0) this.#worker.unref();
    return waiting;
  }

  #end(detail: string): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#rejectAll(detail);
    this.#events.onEnd(detail);
  }

  #rejectAll(detail: string): void {
    for (const id of this.#waiting.keys())
      this.#settle(id)?.reject(new Error(`the index's thread has ended: ${detail}`));
  }
}
