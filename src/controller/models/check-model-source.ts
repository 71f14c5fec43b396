import { BerthError, isAbortError, NotFoundError } from "../../base/errors.ts";
import { createTimeLimit } from "../../base/time-limit.ts";
import type { ModelSpec } from "../../resources/model-spec.ts";
import { resolveToken, toSourceRequest } from "./desired-model.ts";
import type { ModelContext } from "./model-context.ts";

/**
 * The time limit of the check in milliseconds, because the caller of `checkModelSource` waits for the result. If the
 * hub is slower, the reconciler tries again later.
 */
const LIMIT_MS = 5_000;

/**
 * Errors that no retry can fix, such as a typing error in the source. They are reported before the Model is created.
 */
const permanentCodes: ReadonlySet<string> = new Set(["hub_denied", "invalid_spec"]);

/** Checks that the source of a Model exists; see `ControlPlane.checkSource`. */
export async function checkModelSource(
  { sources, store }: Pick<ModelContext, "sources" | "store">,
  spec: ModelSpec,
  signal: AbortSignal,
): Promise<void> {
  using bound = createTimeLimit(signal, LIMIT_MS);
  try {
    await sources.resolve(
      { ...toSourceRequest(spec), token: resolveToken(store, spec) },
      bound.signal,
    );
  } catch (error) {
    signal.throwIfAborted();
    if (isAbortError(error)) return;
    if (!(error instanceof BerthError) || permanentCodes.has(error.code)) throw error;
    if (error.code === "hub_not_found") throw new NotFoundError(error.message, error.hint);
  }
}
