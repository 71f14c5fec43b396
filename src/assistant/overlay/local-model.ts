import { untilAborted } from "../../base/aborting.ts";
import { timeLimit } from "../../base/time-limit.ts";
import type { OverlayFacts } from "./options.ts";

/** Local models are listed in milliseconds; nobody waits for a list that hangs. */
const LIMIT_MS = 2_000;

/** The local default; undefined: there is none. Rejects where that cannot be found out in time. */
export async function localModelOf(
  facts: OverlayFacts,
  signal: AbortSignal,
): Promise<string | undefined> {
  using limit = timeLimit(signal, LIMIT_MS);
  return await untilAborted(facts.localModel(limit.signal), limit.signal);
}
