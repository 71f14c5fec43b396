import type { ModelReconcileState } from "../../resources/model-status.ts";
import type { DesiredModel } from "./desired-model.ts";

/**
 * Removes entries from the state that do not apply any more. A user's retry is applied once: it clears the failure. For
 * a resolved model, it also requests that the source is resolved and all files are verified again. A failure that was
 * recorded for other `inputs` (before an edit, or with another credential) does not apply any more, and delays nothing.
 */
export function applyModelInputs(
  memory: ModelReconcileState,
  { retriedAt }: DesiredModel,
  inputs: string,
): ModelReconcileState {
  if (retriedAt !== null && retriedAt !== memory.retriedAt)
    return {
      ...memory,
      retriedAt,
      refresh: memory.pin ? "resolve" : null,
      stalled: null,
      failure: null,
    };
  const { stalled, failure } = memory;
  return {
    ...memory,
    stalled: stalled?.inputs === inputs ? stalled : null,
    failure: failure?.inputs === inputs ? failure : null,
  };
}
