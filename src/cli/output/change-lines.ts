import type { PlanView } from "../../resources/wire/apps.ts";
import type { ModelPlanView } from "../../resources/wire/models.ts";
import type { ApplyResultView } from "../../resources/wire/resources.ts";
import type { FieldChangeView } from "../../resources/wire/wire-schema.ts";
import type { Colors } from "../colours.ts";
import { formatShortValue } from "./format-sections.ts";

/** Formats one line per field: + added, - removed, ~ changed. */
export function formatChanges(changes: readonly FieldChangeView[], colours: Colors): string[] {
  return changes.map(({ path, before, after }) => {
    const field = path
      .replace(/^\//, "")
      .replaceAll("/", ".")
      .replaceAll("~1", "/")
      .replaceAll("~0", "~");
    if (before === undefined) return colours.green(`+ ${field}: ${formatShortValue(after)}`);
    if (after === undefined) return colours.red(`- ${field}: ${formatShortValue(before)}`);
    return colours.yellow(`~ ${field}: ${formatShortValue(before)} -> ${formatShortValue(after)}`);
  });
}

/** Returns true if the plan contains operations or names a reason why it is blocked. */
function hasWork(plan: PlanView | ModelPlanView): boolean {
  return plan.operations.length > 0 || plan.blocked_by !== null;
}

/** Formats the plan for an applied manifest below a heading; empty if there is nothing to do. */
export function formatPlanSection(
  { plan, model_plan: modelPlan, plan_message: message }: ApplyResultView,
  colours: Colors,
): string[] {
  const known = plan ?? modelPlan;
  if (known === null) return message === null ? [] : [colours.dim(`  no plan: ${message}`)];
  if (!hasWork(known)) return [];
  return ["  plan:", ...formatPlan(known, colours).map((line) => `    ${line}`)];
}

/** Formats a plan of the reconciler, one line per operation, or "nothing to do". */
export function formatPlan(plan: PlanView | ModelPlanView, colours: Colors): string[] {
  const blocked = plan.blocked_by === null ? [] : [colours.yellow(`waits: ${plan.blocked_by}`)];
  if (plan.operations.length === 0)
    return blocked.length > 0 ? blocked : [colours.dim("nothing to do")];
  return [
    ...blocked,
    ...plan.operations.map(
      ({ operation, target, cause }, index) =>
        `${index + 1}. ${operation} ${target}${cause === "" ? "" : colours.dim(`  (${cause})`)}`,
    ),
  ];
}
