import { planContainers, planCreations, planOldRestart } from "./containers.ts";
import { decideCreations } from "./creations.ts";
import { classifyContainers, hasEnded } from "./observed-containers.ts";
import { buildRemovals, type PlanDraft } from "./plan-draft.ts";
import { planRoute } from "./plan-route.ts";

/**
 * Plans the strategy recreate: the old version stops before the new one starts. The old version keeps running until
 * everything else that the new version needs is available.
 */
export function planRecreate(draft: PlanDraft): void {
  const { desired, observed } = draft;
  const { kept, surplus, old } = classifyContainers(desired, observed.containers);
  const creations = decideCreations(draft, kept);
  const steps = draft.collect(() => {
    if (creations.areHeld) {
      // A stalled version is left unchanged, and the version before it is kept running.
      if (!observed.isStalled && old.length === 0) planContainers(draft, kept);
      for (const container of old) if (hasEnded(container)) planOldRestart(draft, container);
      return;
    }
    const graceMs = desired.app.stopGraceMs;
    draft.add(...buildRemovals(old, graceMs, `replaced by generation ${desired.generation}`));
    draft.add(...buildRemovals(surplus, graceMs, `${desired.containers.length} wanted`));
    planContainers(draft, kept);
    planCreations(draft, creations.specs, creations.cause);
  });
  planRoute(draft, steps);
  draft.add(...steps);
}
