import type { ModelReconcileState } from "../../resources/model-status.ts";
import type { DesiredModel } from "./desired-model.ts";

/**
 * What is still true of the memory. A person's wish to try again is obeyed once: what failed is forgotten, and
 * of a model that is known the source is asked and everything compared anew. What failed with other `inputs`
 * (an edit, a credential) says nothing of how these will do, and holds nothing up.
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
