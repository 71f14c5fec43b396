import type { ReconcileState } from "../../resources/app-status.ts";
import type { ObservedContainer } from "../runtime/port.ts";
import type { DesiredApp } from "./desired-app.ts";
import { recentDrifts } from "./drift-history.ts";
import { getSpecHash, isHealthy } from "./plan/observed-containers.ts";
import type { ContainerHealth } from "./plan/plan-types.ts";
import { keptRestarts } from "./restart-budget.ts";

/** The durable state of the reconciler for an App, which is kept in its status. All functions are pure. */

/**
 * A version must have been Ready this long to become a version to revert to, because some versions answer a first probe
 * and crash soon after. The Ready condition does not wait this long.
 */
export const MIN_READY_MS = 10_000;

/**
 * Forgets all failures if the user has asked for a retry. Ends a stall if other inputs (the spec or Secrets) have
 * changed.
 */
export function applyInputs(
  memory: ReconcileState,
  retriedAt: string | null,
  inputs: string,
): ReconcileState {
  if (retriedAt !== memory.retriedAt && retriedAt !== null) {
    return {
      ...memory,
      retriedAt,
      quarantine: null,
      stalled: null,
      restarts: [],
      drifts: [],
      attempt: null,
    };
  }
  // A spec file without the annotation of `berth retry` removes the annotation when it is applied. Such a removal does
  // not request a retry.
  const known = retriedAt === memory.retriedAt ? memory : { ...memory, retriedAt };
  const isOver = known.stalled !== null && known.stalled.inputs !== inputs;
  return isOver ? { ...known, stalled: null, restarts: [], attempt: null } : known;
}

/**
 * Replaces times in the future by the current time. Such times exist after the clock was set back, and would block
 * restarts and deadlines.
 */
export function clampToClock(memory: ReconcileState, nowMs: number): ReconcileState {
  const { attempt, window } = memory;
  const isPast = ({ at }: { readonly at: number }) => at <= nowMs;
  const isFine =
    memory.restarts.every(isPast) &&
    memory.drifts.every(isPast) &&
    (attempt === null || Math.max(attempt.progressAt, attempt.readySince ?? 0) <= nowMs) &&
    (window === null || Math.max(window.since ?? 0, window.endedAt ?? 0) <= nowMs);
  if (isFine) return memory;
  const clamp = (epochMs: number | null) => epochMs && Math.min(epochMs, nowMs);
  return {
    ...memory,
    restarts: memory.restarts.filter(isPast),
    drifts: memory.drifts.filter(isPast),
    attempt: attempt && {
      ...attempt,
      progressAt: Math.min(attempt.progressAt, nowMs),
      readySince: clamp(attempt.readySince),
    },
    window: window && { ...window, since: clamp(window.since), endedAt: clamp(window.endedAt) },
  };
}

/**
 * The reason of a stall after a version failed in its observation window. The version was healthy before it failed, so
 * a healthy container does not end a stall with this reason.
 */
export const OBSERVATION_FAILED = "ObservationFailed";

/**
 * Ends the stall of a version that has become healthy nevertheless, for example because it needed longer than its
 * deadline.
 */
export function endStall(memory: ReconcileState): ReconcileState {
  if (memory.stalled === null || memory.stalled.reason === OBSERVATION_FAILED) return memory;
  return { ...memory, stalled: null };
}

/** Begins the attempt of a new version, with a full restart budget and its own deadline. */
export function beginAttempt(
  memory: ReconcileState,
  hash: string,
  nowMs: number,
  steps: number,
): ReconcileState {
  return {
    ...memory,
    attempt: { hash, progressAt: nowMs, steps, readySince: null, beganAt: nowMs },
    restarts: [],
    stable: memory.stable?.hash === hash ? memory.stable : null,
  };
}

/**
 * Counts the steps of a version's progress: a container adds one step if it exists, one if it runs, and one if it is
 * healthy.
 */
export function countSteps(
  desired: DesiredApp,
  containers: readonly ObservedContainer[],
  health: ReadonlyMap<string, ContainerHealth>,
): number {
  const own = containers.filter((container) => getSpecHash(container) === desired.hash);
  const running = own.filter((container) => container.state === "running");
  return (
    own.length + running.length + own.filter((container) => isHealthy(container, health)).length
  );
}

/** True while a running container of the version has not answered its first probe. */
export function isUnprobed(
  desired: DesiredApp,
  containers: readonly ObservedContainer[],
  health: ReadonlyMap<string, ContainerHealth>,
): boolean {
  return containers.some(
    (container) =>
      container.state === "running" &&
      getSpecHash(container) === desired.hash &&
      (health.get(container.id)?.healthy ?? null) === null,
  );
}

/**
 * Records the progress of a version: restarts its progress deadline after each step that `countSteps` counts, and while
 * the App waits for another resource.
 */
export function noteProgress(
  memory: ReconcileState,
  nowMs: number,
  steps: number,
  isWaiting: boolean,
): ReconcileState {
  const { attempt } = memory;
  if (!attempt) return memory;
  // During a wait, the progress time changes at most once a second, so that not every reconcile run writes to the
  // store.
  const isDue = isWaiting && nowMs - attempt.progressAt > 1_000;
  if (steps <= attempt.steps && !isDue) return memory;
  return {
    ...memory,
    attempt: { ...attempt, progressAt: nowMs, steps: Math.max(steps, attempt.steps) },
  };
}

export function noteReadySince(memory: ReconcileState, readySince: number | null): ReconcileState {
  const { attempt } = memory;
  if (!attempt || attempt.readySince === readySince) return memory;
  return { ...memory, attempt: { ...attempt, readySince } };
}

export function noteRestart(
  memory: ReconcileState,
  desired: DesiredApp,
  budgetKey: string,
  nowMs: number,
): ReconcileState {
  return {
    ...memory,
    restarts: [
      ...keptRestarts(memory.restarts, desired.app.restart, nowMs),
      { of: budgetKey, at: nowMs },
    ],
  };
}

export function noteCorrections(
  memory: ReconcileState,
  fields: readonly string[],
  nowMs: number,
): ReconcileState {
  return {
    ...memory,
    drifts: [
      ...recentDrifts(memory.drifts, nowMs),
      ...fields.map((field) => ({ field, at: nowMs })),
    ],
  };
}

/**
 * Returns when a version without progress counts as failed, in epoch milliseconds. Returns null if no version is being
 * started, or if the version was stable earlier, because such a version is never given up.
 */
export function progressDeadlineAtMs(
  memory: ReconcileState,
  desired: DesiredApp,
  isProven: boolean,
): number | null {
  const { attempt } = memory;
  const isWanted = desired.app.running && !desired.app.suspend;
  if (!attempt || !isWanted || isProven) return null;
  return (
    attempt.progressAt +
    desired.app.rollout.progressDeadlineMs +
    desired.app.healthCheck.startPeriodMs
  );
}

export function isStable(memory: ReconcileState, desired: DesiredApp): boolean {
  return (
    memory.stable?.hash === desired.hash && memory.stable.replicas === desired.containers.length
  );
}

/**
 * The maximum number of versions that are remembered as having served. An App never has containers of more versions at
 * the same time.
 */
const SERVED_KEPT_MAX = 10;

/**
 * Records that a version receives the App's requests. `revision` is the number of its revision; undefined if only its
 * containers are known.
 */
export function noteServed(
  memory: ReconcileState,
  version: string,
  revision: number | undefined,
): ReconcileState {
  const number =
    revision ?? memory.servedRevisions.find((known) => known.version === version)?.number;
  const isNoted =
    memory.served.at(-1) === version &&
    (number === undefined || memory.servedRevisions.at(-1)?.number === number);
  if (isNoted) return memory;
  const served = [...memory.served.filter((known) => known !== version), version];
  const others = memory.servedRevisions.filter((known) => known.number !== number);
  const servedRevisions = number === undefined ? others : [...others, { version, number }];
  return {
    ...memory,
    served: served.slice(-SERVED_KEPT_MAX),
    servedRevisions: servedRevisions.slice(-SERVED_KEPT_MAX),
  };
}
