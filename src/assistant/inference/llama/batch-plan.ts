/** The duration of a decoding step as one batch, by number of streams (`width`), narrowest first. */
export type BatchCosts = readonly (readonly [width: number, ms: number])[];

/**
 * Splits decoding steps into batches. A batch should cost less than its tokens one by one, but on processors it often
 * does not: with 8-bit weights a batch of two tokens took four times as long as one token, and only batches of eight or
 * more saved time. So the costs are measured, and the cheapest split is used.
 */
export class BatchPlan {
  #costs: BatchCosts = [];
  readonly #plans = new Map<number, readonly number[]>();

  /**
   * Sets the measured durations of a batch, one for each number of streams. Before the first call, every decoding step
   * is one batch.
   */
  adopt(costs: BatchCosts): void {
    this.#costs = costs;
    this.#plans.clear();
  }

  /** Returns the widths of the batches of one decoding step, widest first; they add up to `streams`. */
  widths(streams: number): readonly number[] {
    const known = this.#plans.get(streams);
    if (known) return known;
    const plan = this.#costs.length === 0 ? [streams] : this.#cheapest(streams);
    this.#plans.set(streams, plan);
    return plan;
  }

  #cheapest(streams: number): readonly number[] {
    const best: { ms: number; widths: readonly number[] }[] = [{ ms: 0, widths: [] }];
    for (let count = 1; count <= streams; count++) {
      let cheapest = { ms: Number.POSITIVE_INFINITY, widths: [count] as readonly number[] };
      // Wide batches are tried before narrow ones, so that of two splits with equal cost the one with fewer batches is
      // chosen.
      for (let width = count; width >= 1; width--) {
        const rest = best[count - width];
        if (!rest) continue;
        const ms = rest.ms + this.#cost(width);
        if (ms < cheapest.ms) cheapest = { ms, widths: [width, ...rest.widths] };
      }
      best.push(cheapest);
    }
    return (best[streams]?.widths ?? [streams]).toSorted((one, other) => other - one);
  }

  /**
   * Returns the cost of a batch of this width. If the width was not measured, the cost is interpolated; beyond the
   * widest measured width, the cost grows in proportion to the width.
   */
  #cost(width: number): number {
    const above = this.#costs.findIndex(([each]) => each >= width);
    if (above === -1) {
      const [widest, ms] = this.#costs.at(-1) ?? [1, 1];
      return (ms * width) / widest;
    }
    const [highWidth, highMs] = this.#costs[above] ?? [1, 1];
    const [lowWidth, lowMs] = this.#costs[above - 1] ?? [0, 0];
    return lowMs + ((highMs - lowMs) * (width - lowWidth)) / (highWidth - lowWidth);
  }
}
