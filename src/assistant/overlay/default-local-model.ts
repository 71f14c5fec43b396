import { raceWithAbort } from "../../base/race-with-abort.ts";
import { createTimeLimit } from "../../base/time-limit.ts";
import type { OverlayFacts } from "./overlay-dependencies.ts";

/** Local models are listed in milliseconds; nobody waits for a list that hangs. */
const TIMEOUT_MS = 2_000;

/** The local default; undefined: there is none. Rejects where that cannot be found out in time. */
export async function findLocalModel(
  facts: OverlayFacts,
  signal: AbortSignal,
): Promise<string | undefined> {
  using limit = createTimeLimit(signal, TIMEOUT_MS);
  return await raceWithAbort(facts.localModel(limit.signal), limit.signal);
}
