import type { ModelReconcileState } from "../../resources/model-status.ts";
import type { DesiredModel } from "./desired-model.ts";

/**
 * Applies a new retry of the user once, and removes failures that no longer apply from the state. A retry clears the
 * failure and, for a resolved model, requests that Berth resolves the source and verifies all files again. A failure
 * that was recorded for other `inputs` (before an edit, or with another credential) delays nothing.
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
