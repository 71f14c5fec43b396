import { BerthError } from "../../base/errors.ts";
import type { ReconcileState } from "../../resources/app-status.ts";
import type { Resource } from "../../resources/resource.ts";
import type { Revision } from "../../store/store.ts";
import type { Reason } from "../reason.ts";
import type { ObservedContainer } from "../runtime/port.ts";
import type { SecretMask } from "../secrets/app-secret-mask.ts";
import { describeContainerState } from "./app-status.ts";
import type { DesiredApp } from "./desired-app.ts";
import type { EngineRecovery } from "./engine-recovery.ts";
import { getSpecHash, isHealthy } from "./plan/observed-containers.ts";
import type { ContainerHealth, Operation, Plan } from "./plan/plan-types.ts";
import { OBSERVATION_FAILED, progressDeadlineAtMs } from "./reconcile-state.ts";
import type { ReconcilerContext } from "./reconciler-context.ts";
import { describePortMismatch, findRevertTarget, readLastLogLines } from "./revert-or-stall.ts";
import { findFailedContainer } from "./rollout-window.ts";

export interface VersionView {
  readonly desired: DesiredApp;
  readonly plan: Plan;
  readonly containers: readonly ObservedContainer[];
  readonly health: ReadonlyMap<string, ContainerHealth>;
  readonly memory: ReconcileState;
  /**
   * The revision that serves instead of this version, or would serve again if this version failed (see
   * findOtherServingRevision); undefined if none is known.
   */
  readonly serving: Revision | undefined;
  readonly isProven: boolean;
  readonly recovery: EngineRecovery;
  readonly mask: SecretMask;
}

/** Returns why the version has failed, with the last lines of its container's log; undefined if it has not failed. */
export async function findVersionFailure(
  context: ReconcilerContext,
  view: VersionView & { readonly resource: Resource<"App"> },
  signal: AbortSignal,
): Promise<Reason | undefined> {
  return (
    (await findObservedFailure(context, view, signal)) ??
    (await findCrash(context, view, signal)) ??
    (await findDeadlineFailure(context, view, signal))
  );
}

/**
 * Returns the failure of a version if the engine refuses to create its container, its progress deadline is over, and
 * there is a revision to revert to. Undefined if the creation is tried again, for example because the disk is full.
 */
export function findCreationFailure(
  { store, clock }: ReconcilerContext,
  resource: Resource<"App">,
  {
    desired,
    memory,
    serving,
    isProven,
  }: Pick<VersionView, "desired" | "memory" | "serving" | "isProven">,
  operation: Operation,
  error: unknown,
): Reason | undefined {
  if (operation.type !== "createContainer") return undefined;
  if (!(error instanceof BerthError) || error.code !== "engine_error") return undefined;
  const deadline = progressDeadlineAtMs(memory, desired, isProven);
  if (deadline === null || clock.now() < deadline) return undefined;
  if (!findRevertTarget(store, resource, desired, memory, serving)) return undefined;
  return { reason: "ContainerRefused", message: error.message };
}

/**
 * Returns the reason why a version has failed in its observation window; undefined if it has not failed. Berth then
 * reverts to the previous version, so the failed container is not restarted.
 */
async function findObservedFailure(
  context: ReconcilerContext,
  view: VersionView & { readonly resource: Resource<"App"> },
  signal: AbortSignal,
): Promise<Reason | undefined> {
  const { desired, memory, health, serving, resource, recovery } = view;
  const { window } = memory;
  if (window?.version !== desired.hash || desired.app.suspend || recovery.hasEndedWithEngine)
    return undefined;
  const failed = findFailedContainer(window, desired, view);
  if (!failed || window.since === null) return undefined;
  // With the strategy recreate, the previous version no longer runs. If the App cannot be reverted either, the
  // container is not reported as failed, so that it is restarted.
  const isRevertible = findRevertTarget(context.store, resource, desired, memory, serving);
  if (desired.strategy.type === "recreate" && !isRevertible) return undefined;
  const { container, failure } = failed;
  const what = {
    ended: describeContainerState(container),
    restarted: "the container was restarted",
    unhealthy: `the container is unhealthy: ${health.get(container.id)?.message ?? ""}`,
  }[failure];
  const lines = await readLastLogLines(context, container, view.mask, signal);
  const seconds = ((context.clock.now() - window.since) / 1_000).toFixed(1);
  return {
    reason: OBSERVATION_FAILED,
    message: `${what}, ${seconds} s after traffic was switched to the version${lines}`,
  };
}

async function findCrash(
  context: ReconcilerContext,
  view: VersionView,
  signal: AbortSignal,
): Promise<Reason | undefined> {
  const container = view.plan.exhausted[0];
  if (!container) return undefined;
  const { desired, health } = view;
  const isUp = container.state === "running";
  const what = isUp
    ? `the container is unhealthy: ${health.get(container.id)?.message ?? ""}`
    : describeContainerState(container);
  const lines = await readLastLogLines(context, container, view.mask, signal);
  if (desired.app.oneShot)
    return {
      reason: "OneShotFailed",
      message: `${what}${lines}; fix the cause, then run berth retry ${desired.name}`,
    };
  return {
    reason: isUp ? "Unhealthy" : "CrashLoop",
    message: `${what}, after ${desired.app.restart.attempts} restarts${lines}; fix the spec or run berth retry ${desired.name}`,
  };
}

async function findDeadlineFailure(
  context: ReconcilerContext,
  view: VersionView,
  signal: AbortSignal,
): Promise<Reason | undefined> {
  const { desired, containers, health, memory } = view;
  const { runtime, clock } = context;
  const deadline = progressDeadlineAtMs(memory, desired, view.isProven);
  if (deadline === null || clock.now() < deadline) return undefined;
  const container = containers.find(
    (candidate) => getSpecHash(candidate) === desired.hash && !isHealthy(candidate, health),
  );
  if (!container) return undefined;
  const isUp = container.state === "running";
  const { probe } = desired.app.healthCheck;
  const mismatch =
    "port" in probe && isUp
      ? await describePortMismatch(runtime, container, probe.port, signal)
      : "";
  const what = isUp
    ? `not healthy: ${health.get(container.id)?.message ?? "not probed"}`
    : describeContainerState(container);
  const lines = await readLastLogLines(context, container, view.mask, signal);
  const seconds = Math.round(desired.app.rollout.progressDeadlineMs / 1000);
  return {
    reason: "ProgressDeadlineExceeded",
    message: `no progress for ${seconds} s; ${what}${mismatch}${lines}`,
  };
}
