import type { ObservedContainer } from "../runtime/port.ts";
import type { DesiredApp } from "./desired-app.ts";
import { hasEnded } from "./plan/observed-containers.ts";
import { startedAtMs } from "./plan-executor.ts";
import type { ReconcilerContext } from "./reconciler-context.ts";

export interface EngineRecovery {
  /** True if the App has not been observed since Berth or the engine was started. */
  readonly isFirstObservation: boolean;
  /**
   * True if the App's containers ended together with the engine or the machine. Such an end does not count as a
   * failure.
   */
  readonly hasEndedWithEngine: boolean;
}

/** Determines if an observation follows a restart of Berth or the engine, and remembers that the App was observed. */
export function trackEngineRecovery(
  context: ReconcilerContext,
  desired: DesiredApp,
  containers: readonly ObservedContainer[],
): EngineRecovery {
  const { name } = desired;
  if (hasEndedWithEngine(context, name, containers)) context.appsEndedWithEngine.add(name);
  const recovery = assessEngineRecovery(context, desired, containers);
  context.observedApps.add(name);
  return recovery;
}

/**
 * Determines if an observation follows a restart of Berth or the engine. Has no side effects, so a dry run can call it.
 */
export function assessEngineRecovery(
  context: RecoveryContext,
  desired: DesiredApp,
  containers: readonly ObservedContainer[],
): EngineRecovery {
  const { name, app } = desired;
  return {
    isFirstObservation: !context.observedApps.has(name),
    hasEndedWithEngine: !app.suspend && hasEndedWithEngine(context, name, containers),
  };
}

type RecoveryContext = Pick<
  ReconcilerContext,
  "observedApps" | "appsEndedWithEngine" | "bootedAtMs"
>;

function hasEndedWithEngine(
  { observedApps, appsEndedWithEngine, bootedAtMs }: RecoveryContext,
  name: string,
  containers: readonly ObservedContainer[],
): boolean {
  if (appsEndedWithEngine.has(name)) return true;
  const bootMs = observedApps.has(name) ? undefined : bootedAtMs?.();
  return bootMs !== undefined && containers.some((item) => hasEndedBeforeBoot(item, bootMs));
}

/**
 * Returns true if the container ended before its machine was started. No container survives a start of the machine.
 */
function hasEndedBeforeBoot(container: ObservedContainer, bootMs: number): boolean {
  const startedMs = startedAtMs(container);
  return hasEnded(container) && startedMs > 0 && startedMs < bootMs;
}
