import type { ObservedContainer } from "../runtime/port.ts";
import type { ReconcilerContext } from "./context.ts";
import type { DesiredApp } from "./desired.ts";
import { startedAtMs } from "./executor.ts";
import { hasEnded } from "./plan/observed.ts";

export interface Sight {
  /** Since Berth, or the engine, came up. */
  readonly isFirst: boolean;
  /** Its containers have ended with the engine or the machine, which is no fault of theirs. */
  readonly isBack: boolean;
}

/** Notes a look at an App. */
export function noteSight(
  { looked, lostSight, bootedAtMs }: ReconcilerContext,
  desired: DesiredApp,
  containers: readonly ObservedContainer[],
): Sight {
  const { name, app } = desired;
  const isFirst = !looked.has(name);
  looked.add(name);
  const bootMs = isFirst ? bootedAtMs?.() : undefined;
  if (bootMs !== undefined && containers.some((item) => hasEndedBefore(item, bootMs)))
    lostSight.add(name);
  return { isFirst, isBack: !app.suspend && lostSight.has(name) };
}

/** No container lives on through a start of its machine. */
function hasEndedBefore(container: ObservedContainer, bootMs: number): boolean {
  const startedMs = startedAtMs(container);
  return hasEnded(container) && startedMs > 0 && startedMs < bootMs;
}
