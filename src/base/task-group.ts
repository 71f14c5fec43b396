import { setMaxListeners } from "node:events";
import { isAbortError } from "./errors.ts";

/**
 * Runs background tasks that shutdown waits for. A task gets a signal that is aborted when the group is
 * disposed. The rejection of a task is reported once through `onError`, unless it was caused by the abort.
 */
export class TaskGroup implements AsyncDisposable {
  readonly #controller = new AbortController();
  readonly #running = new Set<Promise<void>>();
  readonly #onError: (error: unknown, name: string) => void;

  constructor(onError: (error: unknown, name: string) => void) {
    this.#onError = onError;
    // Every running task listens to the signal, so hundreds of listeners are normal, and Node's warning about a leak
    // would be wrong.
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

  /** Resolves when all running tasks have ended, including those started in the meantime. */
  async waitUntilIdle(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#controller.abort();
    await this.waitUntilIdle();
  }
}
