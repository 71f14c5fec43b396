import type { PlanReport } from "../../controller/port.ts";
import type { PlanView } from "../../resources/wire/apps.ts";
import type { FieldChangeView } from "../../resources/wire/wire-schema.ts";
import type { FieldChange } from "../../store/store.ts";

export function planView(plan: PlanReport): PlanView {
  return {
    app: plan.app,
    generation: plan.generation,
    strategy: plan.strategy,
    strategy_reason: plan.strategyReason,
    operations: plan.operations.map(({ operation, target, cause }) => ({
      operation,
      target,
      cause,
    })),
    changes: plan.changes.map((change) => fieldChangeView(change)),
    blocked_by: plan.blockedBy,
  };
}

export function fieldChangeView(change: FieldChange): FieldChangeView {
  return {
    path: change.path,
    ...(change.before === undefined ? {} : { before: change.before }),
    ...(change.after === undefined ? {} : { after: change.after }),
  };
}
