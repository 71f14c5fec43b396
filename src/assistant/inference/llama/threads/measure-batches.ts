import type { BatchCosts } from "../batch-plan.ts";

/** The numbers of streams for which a batch is measured. The costs of batches of other sizes are interpolated. */
const WIDTHS = [1, 2, 4, 8, 16, 32];
const ROUNDS = 2;
/** Two measurements agree if they differ by less than this factor. */
const STEADY_FACTOR = 1.3;

/**
 * Measures how long a decoding step of 1, 2, 4, ... streams takes as one batch. Each round measures all of these
 * batches, so that other load on the machine does not distort only one result. `steady` is true if the rounds agreed,
 * so that the result can be kept.
 */
export async function measureBatches(options: {
  readonly sequences: number;
  readonly measure: (width: number) => Promise<number>;
  readonly signal: AbortSignal;
}): Promise<{ readonly costs: BatchCosts; readonly steady: boolean }> {
  const widths = WIDTHS.filter((width) => width <= options.sequences);
  const times = new Map<number, number[]>(widths.map((width) => [width, []]));
  for (let round = 0; round < ROUNDS; round++) {
    for (const width of widths) {
      options.signal.throwIfAborted();
      times.get(width)?.push(await options.measure(width));
    }
  }
  const steady = [...times.values()].every(
    (measured) => Math.max(...measured) <= Math.min(...measured) * STEADY_FACTOR,
  );
  const costs = [...times].map(([width, measured]) => [width, Math.min(...measured)] as const);
  return { costs, steady };
}
