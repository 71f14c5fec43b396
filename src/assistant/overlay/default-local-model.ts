import { raceWithAbort } from "../../base/race-with-abort.ts";
import { createTimeLimit } from "../../base/time-limit.ts";
import type { OverlayFacts } from "./overlay-dependencies.ts";

/**
 * Time limit for the list of local models. It normally takes milliseconds, and a list that hangs must not delay a
 * query.
 */
const TIMEOUT_MS = 2_000;

/**
 * Returns the default local model; undefined if there is none. Rejects with `no_model` if the models cannot be reached,
 * and with another error if the list of models takes too long.
 */
export async function findLocalModel(
  facts: OverlayFacts,
  signal: AbortSignal,
): Promise<string | undefined> {
  using limit = createTimeLimit(signal, TIMEOUT_MS);
  return await raceWithAbort(facts.localModel(limit.signal), limit.signal);
}
