import { createHash } from "node:crypto";
import { Dice } from "./random.ts";

/** Decides what a run of the tests tries; BERTH_SEED replays one. */
export const SEED = Number(process.env["BERTH_SEED"] ?? Date.now() % 1_000_000);

/** A long time for the whole of a matrix, and the usual one for a sample. */
export const MATRIX_LIMIT_MS = process.env["BERTH_KILLS"] === "all" ? 60 * 60_000 : 300_000;

/**
 * Returns the places of a kill or fault matrix that this run tries, in their order, and prints the seed that
 * chose them. BERTH_KILLS sets how many of each matrix, or `all`; otherwise it is `countByDefault`.
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
