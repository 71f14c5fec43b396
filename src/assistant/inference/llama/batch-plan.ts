/** How long a step of so many streams takes as one batch: width and milliseconds, narrowest first. */
export type BatchCosts = readonly (readonly [width: number, ms: number])[];

/**
 * Splits steps into batches. A batch should cost less than its tokens one by one, and on processors it
 * often does not: with 8-bit weights two tokens together took four times as long as one, and only from
 * eight on was there a gain. So what batches cost is measured, and the cheapest split is taken.
 */
export class BatchPlan {
  #costs: BatchCosts = [];
  readonly #plans = new Map<number, readonly number[]>();

  /** Without costs every step is one batch. */
  adopt(costs: BatchCosts): void {
    this.#costs = costs;
    this.#plans.clear();
  }

  /** Widths that add up to `streams`, widest first. */
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
      // The widest first, so that of equal ones the one with fewer batches is taken.
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

  /** What was not measured lies between its neighbours, or in proportion to the widest. */
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
