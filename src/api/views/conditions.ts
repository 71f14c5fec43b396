import type { Condition } from "../../resources/app-status.ts";
import type { ConditionView } from "../../resources/wire/apps.ts";

export function conditionView(condition: Condition): ConditionView {
  return {
    type: condition.type,
    status: condition.status,
    reason: condition.reason,
    message: condition.message,
    last_transition_time: condition.lastTransitionTime,
    observed_generation: condition.observedGeneration,
  };
}
