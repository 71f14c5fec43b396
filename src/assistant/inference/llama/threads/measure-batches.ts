import type { BatchCosts } from "../batch-plan.ts";

/** What lies between is taken from these. */
const WIDTHS = [1, 2, 4, 8, 16, 32];
const ROUNDS = 2;
/** Two measurements of a width that differ by less. */
const STEADY_FACTOR = 1.3;

/**
 * Measures what steps cost as one batch, by width. Rounds take turns, so that a load from elsewhere does
 * not make one width look dear. `steady`: the rounds agreed, and the result is worth keeping.
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
