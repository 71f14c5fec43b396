import { createHash } from "node:crypto";
import { Dice } from "./random.ts";

/** The seed of all random choices in a run of the tests; BERTH_SEED sets it to repeat a run. */
export const SEED = Number(process.env["BERTH_SEED"] ?? Date.now() % 1_000_000);

/**
 * The time limit in milliseconds of a test that tries kills or faults at many points: an hour for all points, five
 * minutes for a sample of them.
 */
export const MATRIX_LIMIT_MS = process.env["BERTH_KILLS"] === "all" ? 60 * 60_000 : 300_000;

/**
 * Chooses the points for kills or faults that this run tries, and prints the seed of the choice. Returns the chosen
 * points in the order of `places`. BERTH_KILLS is the number of points, or `all` for all points; the default is
 * `countByDefault`.
 */
export function sampleOf<T>(name: string, places: readonly T[], countByDefault: number): T[] {
  const wanted = process.env["BERTH_KILLS"] ?? String(countByDefault);
  const count = wanted === "all" ? places.length : Math.min(Number(wanted), places.length);
  if (!Number.isInteger(count) || count < 1)
    throw new Error(`BERTH_KILLS is a whole number or "all", not "${wanted}"`);
  const dice = new Dice(createHash("sha256").update(`${SEED} ${name}`).digest().readUInt32LE());
  const chosen = new Set<number>();
  while (chosen.size < count) chosen.add(dice.between(0, places.length - 1));
  process.stdout.write(`${name}: ${count} of ${places.length} places, BERTH_SEED=${SEED}\n`);
  return places.filter((_, index) => chosen.has(index));
}
