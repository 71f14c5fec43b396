import type { CoreLease, RequestPriority } from "../../inference-engine.ts";
import type { ToChild } from "./ipc.ts";

/** The parent's end of `LeasedCores`: asks for the cores on behalf of a model's process. */
export class CoreLeaseParent implements Disposable {
  readonly #cores: CoreLease;
  readonly #send: (message: ToChild) => void;
  readonly #ended = new AbortController();
  readonly #pendingHolds = new Map<number, AbortController>();
  readonly #stopListening: () => void;

  constructor(cores: CoreLease, send: (message: ToChild) => void) {
    this.#cores = cores;
    this.#send = send;
    this.#stopListening = cores.onContest((contested) => send({ type: "contested", contested }));
  }

  hold(id: number, priority: RequestPriority): void {
    if (!this.#ended.signal.aborted) void this.#requestHold(id, priority);
  }

  cancelHold(id: number): void {
    this.#pendingHolds.get(id)?.abort();
  }

  release(): void {
    this.#cores.release();
  }

  /** The process is gone, and what it held with it. */
  [Symbol.dispose](): void {
    if (this.#ended.signal.aborted) return;
    this.#ended.abort();
    this.#stopListening();
    for (const asked of this.#pendingHolds.values()) asked.abort();
    this.#cores.release();
  }

  async #requestHold(id: number, priority: RequestPriority): Promise<void> {
    const asked = new AbortController();
    this.#pendingHolds.set(id, asked);
    try {
      await this.#cores.hold(priority, asked.signal);
    } catch {
      // Only an abort ends the wait, and then nobody waits for the answer.
      return;
    } finally {
      this.#pendingHolds.delete(id);
    }
    if (this.#ended.signal.aborted) this.#cores.release();
    else this.#send({ type: "granted", id });
  }
}
