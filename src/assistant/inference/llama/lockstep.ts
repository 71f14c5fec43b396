import type { BatchItem, BatchingOptions, PrioritizedBatchItem } from "node-llama-cpp";

/**
 * The maximum number of times that an incomplete batch is held back; the next time it is decoded as it is. Two attempts
 * are one or two microtasks apart, and a stream needs about ten microtasks to submit its token.
 */
const ROUNDS_MAX = 1_000;

/** For tests and metrics: the number of decoded batches, and the number of streams in the last batch. */
export interface BatchCounts {
  readonly count: number;
  readonly last: number;
}

/**
 * Makes node-llama-cpp decode all tokens of a decoding step as one batch. By default node-llama-cpp decodes the tokens
 * submitted so far, and streams submit one after the other: a step of eight streams became a batch of seven and a batch
 * of one, and took two to three times as long. So this strategy offers no tokens to node-llama-cpp before all streams
 * of the step have submitted theirs.
 */
export class Lockstep {
  #expected = 0;
  #widths: readonly number[] = [];
  #rounds = 0;
  #count = 0;
  #last = 0;

  /** The strategy for node-llama-cpp's option `LlamaContextOptions.batching`. */
  readonly batching: BatchingOptions = {
    // node-llama-cpp calls `#chooseBatch` without a delay, and `#chooseBatch` waits for the other streams of the
    // decoding step. If node-llama-cpp waited for the next cycle of the event loop, the output of the previous step
    // would be written first, which made a single stream 6 % slower.
    dispatchSchedule: (dispatch) => dispatch(),
    itemPrioritizationStrategy: ({ items, size }) => this.#chooseBatch(items, size),
  };

  get counts(): BatchCounts {
    return { count: this.#count, last: this.#last };
  }

  /**
   * Sets how many tokens the streams submit in the next decoding step, and the sizes of the batches in which these
   * tokens are decoded.
   */
  expect(items: number, widths: readonly number[] = [items]): void {
    this.#expected = items;
    this.#widths = widths;
    this.#rounds = 0;
  }

  /** Reports that one stream failed and will not submit its token. */
  expectOneLess(): void {
    this.#expected--;
  }

  #chooseBatch(items: readonly BatchItem[], size: number): PrioritizedBatchItem[] {
    if (items.length < this.#expected && this.#rounds++ < ROUNDS_MAX) return [];
    const [width = items.length, ...others] = this.#widths;
    this.#widths = others;
    const batch = items.slice(0, Math.max(1, width));
    // When node-llama-cpp has decoded the current batch, it calls this method again with the remaining tokens of the
    // decoding step.
    this.#expected = Math.min(this.#expected, items.length - batch.length);
    this.#count++;
    this.#last = batch.length;
    // The tokens stay in the order in which they were submitted, which is the order of the KV-cache sequences, because
    // llama.cpp splits unordered batches.
    let left = size;
    return batch.flatMap((item) => {
      const processAmount = Math.min(item.tokens.length, left);
      left -= processAmount;
      return processAmount > 0 ? [{ item, processAmount }] : [];
    });
  }
}
