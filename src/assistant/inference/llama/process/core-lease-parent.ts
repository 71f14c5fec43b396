import type { CoreLease, RequestPriority } from "../../inference-engine.ts";
import type { ToChild } from "./ipc.ts";

/** The parent's side of the core lease: requests the cores for a model's process. */
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

  /** Called when the process has ended: cancels its requests and releases its cores. */
  [Symbol.dispose](): void {
    if (this.#ended.signal.aborted) return;
    this.#ended.abort();
    this.#stopListening();
    for (const request of this.#pendingHolds.values()) request.abort();
    this.#cores.release();
  }

  async #requestHold(id: number, priority: RequestPriority): Promise<void> {
    const request = new AbortController();
    this.#pendingHolds.set(id, request);
    try {
      await this.#cores.hold(priority, request.signal);
    } catch {
      // `hold` rejects only if the child cancelled this request or has ended, so no message `granted` is sent.
      return;
    } finally {
      this.#pendingHolds.delete(id);
    }
    if (this.#ended.signal.aborted) this.#cores.release();
    else this.#send({ type: "granted", id });
  }
}
