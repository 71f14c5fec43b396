import type { BatchItem, BatchingOptions, PrioritizedBatchItem } from "node-llama-cpp";

/** A batch that waits goes round once in a microtask or two; a stream needs some ten to hand its token in. */
const ROUNDS_MAX = 1_000;

/** For tests and metrics: batches decoded so far, and how many streams the last of them held. */
export interface BatchCounts {
  readonly count: number;
  readonly last: number;
}

/**
 * Makes one batch of all tokens of a step. Left alone, the library takes what has been handed in by the
 * time it looks, and streams hand in one after the other: steps of eight ended up as seven and one, two
 * to three times slower. So this tells it that there is nothing to do until as many have come as the step has.
 */
export class Lockstep {
  #expected = 0;
  #widths: readonly number[] = [];
  #rounds = 0;
  #count = 0;
  #last = 0;

  /** For `LlamaContextOptions.batching`. */
  readonly batching: BatchingOptions = {
    // Not in the next cycle: what is to be written to others of the step before would come first then,
    // and cost one stream 6 % of its speed. It waits for the other streams of the step below.
    dispatchSchedule: (dispatch) => dispatch(),
    itemPrioritizationStrategy: ({ items, size }) => this.#chooseBatch(items, size),
  };

  get counts(): BatchCounts {
    return { count: this.#count, last: this.#last };
  }

  /** So many are about to hand in, to be decoded in batches of these widths, one after the other. */
  expect(items: number, widths: readonly number[] = [items]): void {
    this.#expected = items;
    this.#widths = widths;
    this.#rounds = 0;
  }

  /** One of them will not, since it failed before. */
  expectOneLess(): void {
    this.#expected--;
  }

  #chooseBatch(items: readonly BatchItem[], size: number): PrioritizedBatchItem[] {
    if (items.length < this.#expected && this.#rounds++ < ROUNDS_MAX) return [];
    const [width = items.length, ...others] = this.#widths;
    this.#widths = others;
    const batch = items.slice(0, Math.max(1, width));
    // The others of the step are there, and are asked for again when this batch is done.
    this.#expected = Math.min(this.#expected, items.length - batch.length);
    this.#count++;
    this.#last = batch.length;
    // In the order of handing in, which is that of the sequences: llama.cpp splits what is out of order.
    let left = size;
    return batch.flatMap((item) => {
      const processAmount = Math.min(item.tokens.length, left);
      left -= processAmount;
      return processAmount > 0 ? [{ item, processAmount }] : [];
    });
  }
}
