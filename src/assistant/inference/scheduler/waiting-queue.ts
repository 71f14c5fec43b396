import type { Generation } from "./generation.ts";

/**
 * How often a background job lets interactive ones go first, be it that they take a sequence before it
 * or that it is evicted for one. Then the next free sequence is its own.
 */
export const OVERTAKEN_MAX = 32;

/** Those who wait for a sequence: interactive ones first, each class in the order of arrival. */
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

  /** Who gets the next free sequence. */
  get next(): Generation | undefined {
    const background = this.nextBackground;
    if (background && background.overtakenCount >= OVERTAKEN_MAX) return background;
    return this.nextInteractive ?? background;
  }

  /** Takes its place by arrival: who was evicted does not queue up anew. */
  add(generation: Generation): void {
    const queue = this.#getQueue(generation);
    let at = queue.length;
    while (at > 0 && (queue[at - 1]?.order ?? 0) > generation.order) at -= 1;
    queue.splice(at, 0, generation);
  }

  /** Does nothing for one that does not wait. */
  remove(generation: Generation): void {
    const queue = this.#getQueue(generation);
    const at = queue.indexOf(generation);
    if (at !== -1) queue.splice(at, 1);
  }

  #getQueue(generation: Generation): Generation[] {
    return generation.priority === "interactive" ? this.#interactive : this.#background;
  }
}
