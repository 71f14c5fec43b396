import type { ObservedContainer } from "../runtime/port.ts";
import type { DesiredApp } from "./desired-app.ts";
import { hasEnded } from "./plan/observed-containers.ts";
import { startedAtMs } from "./plan-executor.ts";
import type { ReconcilerContext } from "./reconciler-context.ts";

export interface EngineRecovery {
  /** Since Berth, or the engine, came up. */
  readonly isFirstObservation: boolean;
  /** Its containers have ended with the engine or the machine, which is no fault of theirs. */
  readonly hasEndedWithEngine: boolean;
}

/** Notes a look at an App. */
export function trackEngineRecovery(
  { observedApps: looked, appsEndedWithEngine: lostSight, bootedAtMs }: ReconcilerContext,
  desired: DesiredApp,
  containers: readonly ObservedContainer[],
): EngineRecovery {
  const { name, app } = desired;
  const isFirst = !looked.has(name);
  looked.add(name);
  const bootMs = isFirst ? bootedAtMs?.() : undefined;
  if (bootMs !== undefined && containers.some((item) => hasEndedBeforeBoot(item, bootMs)))
    lostSight.add(name);
  return { isFirstObservation: isFirst, hasEndedWithEngine: !app.suspend && lostSight.has(name) };
}

/** No container lives on through a start of its machine. */
function hasEndedBeforeBoot(container: ObservedContainer, bootMs: number): boolean {
  const startedMs = startedAtMs(container);
  return hasEnded(container) && startedMs > 0 && startedMs < bootMs;
}
