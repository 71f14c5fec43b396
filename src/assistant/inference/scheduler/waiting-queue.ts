import type { Generation } from "./generation.ts";

/**
 * Interactive jobs overtake a background job if they get a KV-cache sequence first, or if they evict the job. A
 * background job that was overtaken this often gets the next free sequence.
 */
export const OVERTAKEN_MAX = 32;

/** The generations that wait for a KV-cache sequence: interactive ones first, each class in the order of arrival. */
export class WaitingQueue {
  readonly #interactive: Generation[] = [];
  readonly #background: Generation[] = [];

  get size(): number {
    return this.#interactive.length + this.#background.length;
  }

  get nextInteractive(): Generation | undefined {
    return this.#interactive[0];
  }

  get nextBackground(): Generation | undefined {
    return this.#background[0];
  }

  /** The generation that gets the next free KV-cache sequence. */
  get next(): Generation | undefined {
    const background = this.nextBackground;
    if (background && background.overtakenCount >= OVERTAKEN_MAX) return background;
    return this.nextInteractive ?? background;
  }

  /** Inserts a generation by its order of arrival, so that an evicted generation does not queue at the end. */
  add(generation: Generation): void {
    const queue = this.#getQueue(generation);
    let at = queue.length;
    while (at > 0 && (queue[at - 1]?.order ?? 0) > generation.order) at -= 1;
    queue.splice(at, 0, generation);
  }

  /** Removes a generation; does nothing if it does not wait. */
  remove(generation: Generation): void {
    const queue = this.#getQueue(generation);
    const at = queue.indexOf(generation);
    if (at !== -1) queue.splice(at, 1);
  }

  #getQueue(generation: Generation): Generation[] {
    return generation.priority === "interactive" ? this.#interactive : this.#background;
  }
}
