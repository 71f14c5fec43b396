import { BerthError, isAbort, NotFoundError } from "../../base/errors.ts";
import { timeLimit } from "../../base/time-limit.ts";
import type { ModelSpec } from "../../resources/model.ts";
import type { ModelContext } from "./context.ts";
import { sourceRequest, tokenOf } from "./desired.ts";

/** Whoever asks waits for the answer; a hub that takes longer is asked again by the reconciler, in milliseconds. */
const LIMIT_MS = 5_000;

/** What a source says for good, so that a slip of the pen shows before a Model is made of it. */
const lasting: ReadonlySet<string> = new Set(["hub_denied", "invalid_spec"]);

/** Throws as `ControlPlane.checkSource` does. */
export async function checkSource(
  { sources, store }: Pick<ModelContext, "sources" | "store">,
  spec: ModelSpec,
  signal: AbortSignal,
): Promise<void> {
  using bound = timeLimit(signal, LIMIT_MS);
  try {
    await sources.resolve({ ...sourceRequest(spec), token: tokenOf(store, spec) }, bound.signal);
  } catch (error) {
    signal.throwIfAborted();
    if (isAbort(error)) return;
    if (!(error instanceof BerthError) || lasting.has(error.code)) throw error;
    if (error.code === "hub_not_found") throw new NotFoundError(error.message, error.hint);
  }
}
