import { setMaxListeners } from "node:events";
import { isAbortError } from "./errors.ts";

/**
 * Background work that shutdown waits for. A task gets a signal that aborts when the group is
 * disposed; a task that rejects is reported once through `onError`, unless it was aborted.
 */
export class TaskGroup implements AsyncDisposable {
  readonly #controller = new AbortController();
  readonly #running = new Set<Promise<void>>();
  readonly #onError: (error: unknown, name: string) => void;

  constructor(onError: (error: unknown, name: string) => void) {
    this.#onError = onError;
    // Every task under way listens: hundreds of them are no leak.
    setMaxListeners(0, this.#controller.signal);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Starts a task unless the group has been disposed, in which case it does nothing. */
  run(name: string, task: (signal: AbortSignal) => Promise<void>): void {
    if (this.#controller.signal.aborted) return;
    const running: Promise<void> = (async () => {
      try {
        await task(this.#controller.signal);
      } catch (error) {
        if (!isAbortError(error) || !this.#controller.signal.aborted) this.#onError(error, name);
      }
    })().finally(() => this.#running.delete(running));
    this.#running.add(running);
  }

  /** Resolves when every task that is running now, or started meanwhile, has ended. */
  async waitUntilIdle(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#controller.abort();
    await this.waitUntilIdle();
  }
}
