import type { Cores, Priority } from "../../engine.ts";
import type { ToChild } from "./wire.ts";

/** The parent's end of `LeasedCores`: asks for the cores on behalf of a model's process. */
export class LentCores implements Disposable {
  readonly #cores: Cores;
  readonly #send: (message: ToChild) => void;
  readonly #ended = new AbortController();
  readonly #asked = new Map<number, AbortController>();
  readonly #stopListening: () => void;

  constructor(cores: Cores, send: (message: ToChild) => void) {
    this.#cores = cores;
    this.#send = send;
    this.#stopListening = cores.onContest((contested) => send({ type: "contested", contested }));
  }

  hold(id: number, priority: Priority): void {
    if (!this.#ended.signal.aborted) void this.#ask(id, priority);
  }

  unhold(id: number): void {
    this.#asked.get(id)?.abort();
  }

  release(): void {
    this.#cores.release();
  }

  /** The process is gone, and what it held with it. */
  [Symbol.dispose](): void {
    if (this.#ended.signal.aborted) return;
    this.#ended.abort();
    this.#stopListening();
    for (const asked of this.#asked.values()) asked.abort();
    this.#cores.release();
  }

  async #ask(id: number, priority: Priority): Promise<void> {
    const asked = new AbortController();
    this.#asked.set(id, asked);
    try {
      await this.#cores.hold(priority, asked.signal);
    } catch {
      // Only an abort ends the wait, and then nobody waits for the answer.
      return;
    } finally {
      this.#asked.delete(id);
    }
    if (this.#ended.signal.aborted) this.#cores.release();
    else this.#send({ type: "granted", id });
  }
}
