import { deepEqual } from "../../base/canonical-json.ts";
import type { Resource } from "../../resources/resource.ts";
import type { Store } from "../../store/store.ts";
import type { Reason } from "../reason.ts";
import { assertMountable } from "./check-mounts.ts";
import { offerKeptVolumes } from "./kept-volumes.ts";
import { noteSwitch } from "./note-switch.ts";
import {
  type ImageOperation,
  isImageOperation,
  type ObtainedImage,
  obtainImage,
} from "./obtain-image.ts";
import { recoverFromFailure } from "./operation-recovery.ts";
import type { Operation } from "./plan/plan-types.ts";
import { groupConcurrentStops } from "./plan-executor.ts";
import * as reconcileState from "./reconcile-state.ts";
import type { ReconcilerContext } from "./reconciler-context.ts";
import { revertOrStall } from "./revert-or-stall.ts";
import { keepRevision } from "./revisions.ts";
import { isObserved } from "./rollout-window.ts";
import type { ObservedRun, PlannedRun, RunState } from "./run-state.ts";
import { findOtherServingRevision } from "./run-steps.ts";
import { findCreationFailure } from "./version-failure.ts";

/** Receives the state of an App's reconcile run while the run executes its plan. */
export interface RunRecorder {
  /** Keeps the run's state in memory. If the reconcile run fails, the App's status is derived from this state. */
  keep(state: RunState): void;
  /**
   * Keeps the run's state in memory, and writes the App's status to the store, so that the status survives a crash of
   * Berth. Throws `disk_full`.
   */
  write(state: RunState): void;
  /**
   * Writes the state as `write` does, before the restart of a container. A full disk does not prevent the restart of a
   * version that was stable earlier.
   */
  writeRestart(state: RunState, progress: Reason): void;
}

export interface ActResult {
  readonly state: RunState;
  /**
   * True if an operation was executed or the plan failed, so that the App must be observed again. False if there is no
   * more work, or if the remaining work waits for an event.
   */
  readonly hasChanged: boolean;
}

/**
 * Executes the operations of the plan in order. State that must survive a crash is written before the operation that
 * it describes. Stops early if the App has changed meanwhile, or if a new plan is needed. Throws the engine's error
 * if only a later run can succeed.
 */
export async function actOnPlan(
  context: ReconcilerContext,
  planned: PlannedRun,
  recorder: RunRecorder,
  signal: AbortSignal,
): Promise<ActResult> {
  const { desired, plan, recovery } = planned;
  const { appsEndedWithEngine } = context;
  // The plan's operations restart the containers that ended with the engine. The App leaves `appsEndedWithEngine`
  // before the operations run, so that another loss of the engine meanwhile can add the App again.
  if (recovery.hasEndedWithEngine) appsEndedWithEngine.delete(desired.name);
  if (plan.operations.length === 0) return { state: planned, hasChanged: false };
  try {
    return await executeOperations(context, planned, recorder, signal);
  } catch (error) {
    if (recovery.hasEndedWithEngine) appsEndedWithEngine.add(desired.name);
    throw error;
  }
}

/** True if the App has changed since its reconcile run began, so that the next run is already queued. */
export function isSuperseded(store: Store, { metadata }: Resource<"App">): boolean {
  const { name, uid, generation, deletionTimestamp } = metadata;
  const current = store.get("App", name)?.metadata;
  return (
    current?.uid !== uid ||
    current.generation !== generation ||
    current.deletionTimestamp !== deletionTimestamp
  );
}

/** Handles the failure of the App's desired version: reverts to an earlier version, or stalls the App. */
export function failVersion(
  { store }: Pick<ReconcilerContext, "store">,
  state: ObservedRun,
  failure: Reason,
): RunState {
  const { resource, desired, memory, mask } = state;
  const masked = { reason: failure.reason, message: mask(failure.message) };
  // The failed version becomes a revision, because the failure can be shown only in the list of revisions.
  if (desired.imageId === null) keepRevision(store, desired, state.resolved.spec);
  const next = revertOrStall(store, resource, desired, memory, masked, {
    serving: findOtherServingRevision(state),
    inputs: state.inputs,
  });
  const { window } = next;
  const isObservedHere = isObserved(next, desired.hash) && window !== null;
  const failed = isObservedHere
    ? { ...next, window: { ...window, outcome: "failed" as const } }
    : next;
  return { ...state, memory: failed, image: "unknown", plan: null };
}

async function executeOperations(
  context: ReconcilerContext,
  planned: PlannedRun,
  recorder: RunRecorder,
  signal: AbortSignal,
): Promise<ActResult> {
  const { desired, plan, resource } = planned;
  const created = new Map<string, string>();
  let state = recordCorrections(context, planned, recorder);
  let hasChanged = false;
  // The mounts are checked before any operation, so that no container is stopped for a replacement that may not be
  // started.
  assertMountable(context.store, plan.operations, desired);
  await offerKeptVolumes(context, planned, signal);
  for (const operations of groupConcurrentStops(plan.operations)) {
    const [operation] = operations;
    if (!operation || isSuperseded(context.store, resource)) return { state, hasChanged: false };
    if (isImageOperation(operation)) {
      const obtained = await obtainRunImage(context, state, operation, recorder, signal);
      if (!obtained.isWaiting) return { state: obtained.state, hasChanged: true };
      state = obtained.state;
      recorder.keep(state);
      continue;
    }
    assertMountable(context.store, operations, desired);
    state = recordBefore(context, state, operation, recorder);
    try {
      await context.executor.executeAll(operations, desired.name, created, signal);
      hasChanged = true;
    } catch (error) {
      return { state: recover(context, state, operation, error), hasChanged: true };
    }
    recordAfter(context, state, operation);
  }
  return { state, hasChanged };
}

/**
 * Returns the state from which a new plan is made after a failed operation. Throws `error` if a new plan would fail in
 * the same way now.
 */
function recover(
  context: ReconcilerContext,
  state: PlannedRun,
  operation: Operation,
  error: unknown,
): RunState {
  const { desired, memory, resource } = state;
  const recovery = recoverFromFailure(context, operation, desired, error);
  if (recovery === "image-absent") return { ...state, image: "absent" };
  if (recovery !== "wait") return state;
  const view = {
    desired,
    memory,
    isProven: state.isProven,
    serving: findOtherServingRevision(state),
  };
  const failure = findCreationFailure(context, resource, view, operation, error);
  if (!failure) throw error;
  return failVersion(context, state, failure);
}

type ObtainedRunImage =
  | { readonly isWaiting: true; readonly state: PlannedRun }
  | { readonly isWaiting: false; readonly state: RunState };

/**
 * Starts the pull or the build of the image that the reconcile run needs, without waiting for its end; `isWaiting` is
 * true while the pull or the build is in progress. Throws errors after which the caller has to try again later.
 */
async function obtainRunImage(
  context: ReconcilerContext,
  state: PlannedRun,
  operation: ImageOperation,
  recorder: RunRecorder,
  signal: AbortSignal,
): Promise<ObtainedRunImage> {
  // The time in which a registry or a build works does not count against the progress deadline of the version, which
  // does not cause this delay.
  const steps = state.memory.attempt?.steps ?? 0;
  const nowMs = context.clock.now();
  const memory = reconcileState.noteProgress(state.memory, nowMs, steps, true);
  const noted = { ...state, memory };
  recorder.keep(noted);
  const step = await obtainImage(context, operation, noted, signal);
  if (step.type === "waiting") return { isWaiting: true, state: { ...noted, ...pickWait(step) } };
  if (step.type === "done") {
    const pinned = { ...memory, image: step.pin };
    return { isWaiting: false, state: { ...noted, memory: pinned, image: "present" } };
  }
  return { isWaiting: false, state: failVersion(context, noted, step.failure) };
}

function pickWait(step: Extract<ObtainedImage, { type: "waiting" }>) {
  return "outage" in step
    ? { progress: null, outage: step.outage, nextRetryAtMs: step.nextRetryAtMs }
    : { progress: step.progress };
}

function recordCorrections(
  context: ReconcilerContext,
  state: PlannedRun,
  recorder: RunRecorder,
): PlannedRun {
  const { plan, desired } = state;
  if (plan.corrections.length === 0) return state;
  const nowMs = context.clock.now();
  const memory = reconcileState.noteCorrections(state.memory, plan.corrections, nowMs);
  for (const field of plan.corrections) {
    const message = `${desired.name}: "${field}" was changed by hand; it is corrected`;
    recordEvent(context, state, "Warning", "DriftCorrected", message);
  }
  const corrected = { ...state, memory };
  recorder.write(corrected);
  return corrected;
}

/**
 * Writes facts that must survive a crash before the operation happens: a restart, because it counts against the restart
 * budget; and the versions of a switch, so that Berth can switch back to the previous version.
 */
function recordBefore(
  context: ReconcilerContext,
  state: PlannedRun,
  operation: Operation,
  recorder: RunRecorder,
): PlannedRun {
  if (operation.type === "startContainer")
    return operation.restart === null
      ? state
      : recordRestart(context, state, operation.restart, operation, recorder);
  const memory = noteSwitch(context, state, operation);
  // The image's pin is written before a container is created. Otherwise, after a crash, the next replica could
  // get a different image.
  const isPinned = deepEqual(memory.image, state.resource.status?.memory.image);
  if (operation.type === "createContainer" && !isPinned) recorder.write(state);
  if (memory === state.memory) return state;
  const switched = { ...state, memory };
  recorder.write(switched);
  return switched;
}

function recordRestart(
  context: ReconcilerContext,
  state: PlannedRun,
  restart: string,
  { name, cause }: { readonly name: string; readonly cause: string },
  recorder: RunRecorder,
): PlannedRun {
  const nowMs = context.clock.now();
  const memory = reconcileState.noteRestart(state.memory, state.desired, restart, nowMs);
  const restarted = { ...state, memory };
  recordEvent(context, state, "Warning", "Restarting", `${name}: ${cause}`);
  recorder.writeRestart(restarted, { reason: "Restarting", message: cause });
  return restarted;
}

function recordAfter(context: ReconcilerContext, state: PlannedRun, operation: Operation): void {
  if (operation.type === "createContainer") {
    // The engine holds the image, possibly because the user has loaded it, so earlier failures to obtain it do not
    // matter.
    for (const step of ["pull", "build"] as const)
      context.retries.succeed(state.desired.name, step);
  }
  if (operation.type !== "switchRoute" || operation.targets.length === 0) return;
  if (operation.version === state.route?.version) return;
  const count = operation.targets.length;
  const to = count === 1 ? "1 container" : `${count} containers`;
  recordEvent(
    context,
    state,
    "Normal",
    "Switched",
    `the app's requests now go to ${to} of the new version`,
  );
}

function recordEvent(
  { store }: ReconcilerContext,
  { desired }: PlannedRun,
  type: "Normal" | "Warning",
  reason: string,
  message: string,
): void {
  store.events.record({ kind: "App", name: desired.name, type, reason, message });
}
