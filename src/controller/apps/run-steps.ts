import type { ImagePin } from "../../resources/app-status.ts";
import { RETRIED_AT_ANNOTATION } from "../../resources/resource.ts";
import type { Revision, Store } from "../../store/store.ts";
import { createSecretMask } from "../secrets/app-secret-mask.ts";
import { inputsDigest } from "./app-inputs.ts";
import { servingVersion } from "./app-readiness.ts";
import { wasMountRefused } from "./check-mounts.ts";
import type { DesiredApp } from "./desired-app.ts";
import type { StoreReader } from "./dry-run-store.ts";
import { isCompleted, noteCompleted } from "./one-shot.ts";
import { planApp } from "./plan/plan-app.ts";
import { isVersionReady } from "./plan/plan-route.ts";
import type { ObservedApp } from "./plan/plan-types.ts";
import * as reconcileState from "./reconcile-state.ts";
import { findServingRevision, type ResolveAppInput, resolveApp } from "./resolve-app.ts";
import { revisionHash } from "./revision-hash.ts";
import { isObserved, trackWindow } from "./rollout-window.ts";
import type { ObservedRun, PlannedRun, ResolvedRun, RunState } from "./run-state.ts";

/** The steps of a reconcile run that only decide and have no effects. A dry run uses the same steps. */

/**
 * Updates the App's reconcile state if, since its last run, the user has requested a retry, the inputs of the App have
 * changed, or the clock was set back.
 */
export function applyChanges(store: Store, state: RunState, nowMs: number): RunState {
  const { annotations } = state.resource.metadata;
  const retriedAt = annotations[RETRIED_AT_ANNOTATION] ?? null;
  const memory = reconcileState.applyInputs(state.memory, retriedAt, runInputs(store, state));
  return { ...state, memory: reconcileState.clampToClock(memory, nowMs) };
}

/**
 * Returns the digest of the inputs of an App, such as its spec and its Secrets. If the digest changes, a stalled App is
 * tried again.
 */
export function runInputs(store: StoreReader, { resource, source }: RunState): string {
  return inputsDigest(store, resource, source?.type === "resolved" ? source.revision : null);
}

/** Resolves the App's spec to the version that should run, with the source and the route in `state`. */
export function resolveRun(
  dependencies: Pick<
    ResolveAppInput,
    | "store"
    | "ingress"
    | "containerListener"
    | "networkPool"
    | "dataDir"
    | "getLoopbackPort"
    | "getAddressPair"
  >,
  state: RunState,
  image: ImagePin | null,
): ResolvedRun {
  const { resource, source, memory } = state;
  const inputs = runInputs(dependencies.store, state);
  const resolveInput: ResolveAppInput = {
    ...dependencies,
    resource,
    memory,
    source,
    pin: image,
    serving: servingVersion(state.route, memory),
  };
  const resolved = resolveApp(resolveInput);
  const { quarantine, spec } = resolved;
  return {
    ...state,
    resolved,
    resolveInput,
    inputs,
    mask: createSecretMask(dependencies.store, [resource.spec, spec]),
    memory: memory.quarantine === quarantine ? memory : { ...memory, quarantine },
  };
}

/**
 * Returns false for a stalled App whose spec says that it does not run: its containers stay unchanged until an input
 * changes.
 */
export function needsPlan({ memory }: RunState, desired: DesiredApp): boolean {
  return memory.stalled === null || desired.app.running;
}

export interface TrackedAttempt {
  readonly state: ObservedRun;
  /**
   * True if the version is new, or if its containers ended because the engine ended. Earlier exits of its containers
   * then do not count as restarts.
   */
  readonly isFresh: boolean;
  /**
   * True if the revision of the version has to be stored: the version is new, or the spec has changed without changing
   * the version's containers.
   */
  readonly isRevisionDue: boolean;
}

/** Begins the attempt of a new version, or notes the progress of the current one. A stalled App makes no attempt. */
export function trackAttempt(observed: ObservedRun, nowMs: number): TrackedAttempt {
  const { desired, containers, health, recovery } = observed;
  const works =
    desired.app.running && !desired.app.oneShot && isVersionReady(desired, containers, health);
  const ended = works ? reconcileState.endStall(observed.memory) : observed.memory;
  const known = noteCompleted(ended, desired, containers, recovery.hasEndedWithEngine);
  const isFresh = recovery.hasEndedWithEngine;
  const window = trackWindow(known.window, desired, observed, {
    nowMs,
    hasEndedWithEngine: isFresh,
  });
  const memory = window === known.window ? known : { ...known, window };
  const state = { ...observed, memory };
  if (memory.stalled !== null || desired.app.suspend)
    return { state, isFresh, isRevisionDue: false };
  if (!desired.app.running) {
    const withoutAttempt = { ...state, memory: { ...memory, attempt: null } };
    return { state: withoutAttempt, isFresh, isRevisionDue: false };
  }
  const steps = reconcileState.countSteps(desired, containers, health);
  if (memory.attempt?.hash !== desired.hash) {
    const begun = reconcileState.beginAttempt(memory, desired.hash, nowMs, steps);
    return { state: { ...state, memory: begun }, isFresh: true, isRevisionDue: true };
  }
  // The progress deadline does not count the time before the first probe, or the time in which Berth did not run, the
  // engine did not answer, or something that the App needs was missing.
  const isWaiting =
    recovery.isFirstObservation ||
    recovery.hasEndedWithEngine ||
    state.resolved.blocked !== null ||
    wasMountRefused(state.resource) ||
    containers.some((container) => container.isPortTaken) ||
    reconcileState.isUnprobed(desired, containers, health);
  return {
    state: {
      ...state,
      memory: reconcileState.noteProgress(memory, nowMs, steps, isWaiting),
    },
    isFresh,
    // A newer spec may change only the health check. The revision is then stored again, because a revert restores the
    // last health check.
    isRevisionDue: state.resource.status?.observedGeneration !== desired.generation,
  };
}

export function planRun(
  state: ObservedRun,
  facts: Pick<ObservedApp, "nowMs" | "isFresh" | "firstSeen" | "connections">,
): PlannedRun {
  const { desired, memory, containers, health, route, stopping, image } = state;
  const { stable, restarts, drifts, served, window } = memory;
  const plan = planApp(desired, {
    ...facts,
    containers,
    health,
    route,
    stopping,
    image,
    restarts,
    drifts,
    stableReplicas: stable?.hash === desired.hash ? stable.replicas : 0,
    blockedBy: state.resolved.blocked?.message ?? null,
    isProven: state.isProven,
    served,
    window,
    isStalled: memory.stalled !== null,
    isCompleted: isCompleted(desired, memory),
    completed: memory.completed.runs.map(({ hash }) => hash),
  });
  return { ...state, plan };
}

/** True if the revision of the desired version was stable earlier. Such a version is never given up. */
export function isProvenVersion(store: StoreReader, { desired, memory, resolved }: ObservedRun) {
  if (memory.stable?.hash === desired.hash) return true;
  const hash = revisionHash(resolved.spec, desired.image, desired.imageId);
  return store.revisions
    .list(desired.name)
    .some((revision) => revision.specHash === hash && revision.state === "stable");
}

/**
 * Returns the revision that serves instead of the desired version: the revision that receives the App's requests, or
 * the one that would receive them again if the desired version failed in its observation window.
 */
export function findOtherServingRevision({
  resolveInput,
  desired,
  memory,
}: ObservedRun): Revision | undefined {
  const { window, servedRevisions } = memory;
  const other = isObserved(memory, desired.hash) ? window?.previous : resolveInput.serving;
  if (other == null || other === desired.hash) return undefined;
  const { store, resource } = resolveInput;
  const number = servedRevisions.find(({ version }) => version === other)?.number;
  const known =
    number === undefined ? undefined : store.revisions.get(resource.metadata.name, number);
  return findServingRevision({ ...resolveInput, serving: other }) ?? known;
}
