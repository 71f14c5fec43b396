import { deepEqual } from "../../base/canonical-json.ts";
import { BerthError } from "../../base/errors.ts";
import type { Resource } from "../../resources/resource.ts";
import type { Store } from "../../store/store.ts";
import type { Reason } from "../reason.ts";
import type { ReconcileResult } from "../reconcile-loop.ts";
import { actOnPlan, failVersion, isSuperseded, type RunRecorder } from "./act-on-plan.ts";
import { removeUnusedFiles } from "./app-files.ts";
import { isComplete } from "./app-readiness.ts";
import { trackEngineRecovery } from "./engine-recovery.ts";
import { listForeignOldContainers } from "./foreign-old-containers.ts";
import { resolveImagePin } from "./image-pin.ts";
import { noteReady } from "./note-ready.ts";
import { observeApp, observeConnections, stopAllContainers } from "./observe-app.ts";
import { observeImage } from "./observe-image.ts";
import { observeSource, throwIfTransient } from "./observe-source.ts";
import { hasUnexpectedEnd } from "./plan/plan-app.ts";
import type { ReconcilerContext } from "./reconciler-context.ts";
import { requeueAfter } from "./requeue-after.ts";
import { findRevision, keepRevision } from "./revisions.ts";
import { findServingProblem } from "./routed-condition.ts";
import {
  createRunState,
  type ObservedRun,
  type PlannedRun,
  type ResolvedRun,
  type RunState,
} from "./run-state.ts";
import { buildRunStatus } from "./run-status.ts";
import {
  applyChanges,
  findOtherServingRevision,
  isProvenVersion,
  needsPlan,
  planRun,
  resolveRun,
  runInputs,
  trackAttempt,
} from "./run-steps.ts";
import { findVersionFailure } from "./version-failure.ts";

/**
 * The maximum number of rounds of resolve, observe, plan and act in one reconcile run. Remaining work waits for the
 * next run.
 */
const ROUNDS_MAX = 8;

/** One reconcile run of one App: rounds of resolve, observe, plan and act, and then the write of the App's status. */
export class AppRun {
  readonly #context: ReconcilerContext;
  readonly #resource: Resource<"App">;
  /** The result of the last completed step of this reconcile run. */
  #state: RunState;
  /** True if the last plan only changed the route, so that the last observation of the containers is still valid. */
  #hasOnlyRouted = false;
  readonly #recorder: RunRecorder = {
    keep: (state) => {
      this.#state = state;
    },
    write: (state) => {
      this.#state = state;
      this.writeStatus({ mustBeSaved: true });
    },
    writeRestart: (state, progress) => {
      this.#state = state;
      // A full disk must not prevent the restart of a version that was stable earlier. Its restarts are then counted
      // in memory.
      this.writeStatus({ progress, mustBeSaved: !state.isProven });
    },
  };

  constructor(context: ReconcilerContext, resource: Resource<"App">) {
    this.#context = context;
    this.#resource = resource;
    this.#state = createRunState(resource);
  }

  async run(signal: AbortSignal): Promise<ReconcileResult> {
    const { store, clock } = this.#context;
    const source = observeSource(this.#context, this.#resource);
    this.#state = applyChanges(store, { ...this.#state, source }, clock.now());
    const isCurrent = () => !isSuperseded(store, this.#resource);
    let isFinished = false;
    for (let round = 0; round < ROUNDS_MAX && !isFinished && isCurrent(); round += 1)
      isFinished = await this.#round(signal);
    if (isFinished && isCurrent()) this.#removeUnusedFiles(this.#state);
    if (isCurrent()) this.#state = this.#noteReady(this.#state);
    this.writeStatus({});
    throwIfTransient(this.#context, this.#resource, this.#state.source);
    return this.#buildResult(this.#state, isFinished);
  }

  /** Writes the App's status as of the last completed step; `override` replaces parts of it. */
  writeStatus(override: {
    unknown?: string | null;
    progress?: Reason | null;
    outage?: Reason | undefined;
    /** The time, in epoch milliseconds, when the next reconcile run repeats the failed steps. */
    nextRetryAtMs?: number;
    /**
     * If true, `disk_full` is thrown when the disk is full. If false, the status is kept in memory when the disk is
     * full.
     */
    mustBeSaved?: boolean;
  }): void {
    const { name, uid } = this.#resource.metadata;
    const status = buildRunStatus(this.#context, {
      ...this.#state,
      progress: override.progress ?? this.#state.progress,
      outage: override.outage ?? this.#state.outage,
      unknown: override.unknown ?? null,
      nextRetryAtMs:
        override.nextRetryAtMs ??
        this.#state.nextRetryAtMs ??
        this.#state.plan?.restartAtMs ??
        null,
    });
    const isKeptInMemory = override.mustBeSaved !== true;
    this.#context.store.setStatus("App", name, uid, status, { isKeptInMemory });
  }

  /** Runs one round of resolve, observe, plan and act. Returns true if nothing is left to do now. */
  async #round(signal: AbortSignal): Promise<boolean> {
    const observed = await this.#observe(signal);
    const { desired } = observed.resolved;
    if (!desired) {
      const { running, suspend } = this.#resource.spec;
      const { name } = this.#resource.metadata;
      if (running === false && suspend !== true)
        await stopAllContainers(this.#context, name, observed, signal);
      return true;
    }
    if (!needsPlan(observed, desired)) return true;
    const recovery = trackEngineRecovery(this.#context, desired, observed.containers);
    const planned = await this.#plan({ ...observed, desired, recovery }, signal);
    // When the engine shuts down, it ends the App's containers. This does not count as a failure, and no container is
    // started.
    if (recovery.hasEndedWithEngine || hasUnexpectedEnd(planned.plan)) {
      await this.#context.runtime.ping(signal);
      // If the engine ended after the observation, systemd may already have started another engine. The App is then
      // observed again.
      if (!recovery.hasEndedWithEngine && this.#context.appsEndedWithEngine.has(desired.name))
        return false;
    }
    // A stalled version is planned again only if the spec or a Secret changes, or if the user retries.
    if (planned.memory.stalled === null) {
      const view = { ...planned, serving: findOtherServingRevision(planned) };
      const failure = await findVersionFailure(this.#context, view, signal);
      if (failure) {
        this.#state = failVersion(this.#context, planned, failure);
        return false;
      }
    }
    this.#hasOnlyRouted = planned.plan.operations.every(({ type }) => type === "switchRoute");
    const acted = await actOnPlan(this.#context, planned, this.#recorder, signal);
    this.#state = acted.state;
    return !acted.hasChanged;
  }

  /** Resolves the App's spec to a version, which is one set of container settings, and observes the containers. */
  async #observe(signal: AbortSignal): Promise<ResolvedRun> {
    const { store, ingress, containerListener, networkPool, dataDir, takeHints } = this.#context;
    const { name } = this.#resource.metadata;
    const isChanged = takeHints(name) || !this.#hasOnlyRouted;
    this.#hasOnlyRouted = false;
    const route = await ingress.table.read(name);
    const source = observeSource(this.#context, this.#resource);
    this.#state = { ...this.#state, route, source };
    const getLoopbackPort = (app: string, replica: number, port: number) =>
      store.ports.lease(app, replica, port);
    const getAddressPair = (app: string, replica: number) => leaseAddressPair(store, app, replica);
    const image = await resolveImagePin(this.#context, this.#state, signal);
    const isNew = image !== null && !deepEqual(image, this.#state.memory.image);
    if (isNew) this.#state = { ...this.#state, memory: { ...this.#state.memory, image } };
    const dependencies = {
      store,
      ingress,
      containerListener,
      networkPool,
      dataDir,
      getLoopbackPort,
      getAddressPair,
    };
    const resolved = resolveRun(dependencies, this.#state, image);
    this.#state = resolved;
    const { desired } = resolved.resolved;
    const known = isChanged ? null : this.#state;
    const observation = await observeApp(this.#context, name, desired, resolved, known, signal);
    const { containers } = observation;
    const foreignOld = listForeignOldContainers(resolved.resolveInput, desired?.hash, containers);
    const observed = { ...resolved, ...observation, foreignOld };
    this.#state = observed;
    return observed;
  }

  async #plan(observed: ObservedRun, signal: AbortSignal): Promise<PlannedRun> {
    const { store, clock, firstSeenTimes } = this.#context;
    const { desired, containers } = observed;
    const { revision } = observed.resolved;
    const { state, isFresh, isRevisionDue } = trackAttempt(observed, clock.now());
    // No revision is made for a version whose image has never been available.
    if (isRevisionDue && desired.imageId !== null)
      keepRevision(store, desired, state.resolved.spec);
    const tracked = { ...state, isProven: isProvenVersion(store, state) };
    this.#state = tracked;
    const image =
      state.memory.stalled === null
        ? await observeImage(this.#context, { desired, containers, revision }, signal)
        : undefined;
    const planned = planRun(
      { ...tracked, image: image ?? tracked.image },
      {
        nowMs: clock.now(),
        isFresh,
        firstSeen: firstSeenTimes.update(desired, state, clock.now()),
        connections: await observeConnections(this.#context, state, signal),
      },
    );
    this.#state = planned;
    return planned;
  }

  #removeUnusedFiles({ resolved, containers }: RunState): void {
    if (resolved?.desired) removeUnusedFiles(this.#context.dataDir, resolved.desired, containers);
  }

  #noteReady(state: RunState): RunState {
    const { resolved, memory, resource } = state;
    const desired = resolved?.desired;
    if (!desired || desired.hash !== memory.attempt?.hash || memory.stalled || resolved.held)
      return state;
    const { store, ingress } = this.#context;
    const isReached = findServingProblem({ resource, desired, ingress }) === null;
    const noted = noteReady(this.#context, memory, {
      desired,
      revision: findRevision(store, desired.name, resolved.spec, desired),
      isComplete: isReached && isComplete(desired, state),
    });
    return { ...state, memory: noted };
  }

  #buildResult(state: RunState, isFinished: boolean): ReconcileResult {
    const desired = state.resolved?.desired;
    if (!desired) return { isSettled: state.source?.type !== "resolving", requeueAfterMs: null };
    const { stalled } = state.memory;
    const isStalled = stalled !== null;
    const isDone = isComplete(desired, state);
    // A change of the inputs queues only an App whose status is Stalled. Inputs that changed before that status was
    // written have not queued the App, so the digest of the inputs is compared here.
    const isOutdated = isStalled && stalled.inputs !== runInputs(this.#context.store, state);
    return {
      isSettled: isStalled || isDone || !desired.app.running || desired.app.suspend,
      requeueAfterMs: requeueAfter({
        ...state,
        desired,
        nowMs: this.#context.clock.now(),
        isFinished: isFinished && !isOutdated,
        isDone,
        isStalled,
        isHeld: state.resolved?.held != null,
        isObtaining: state.progress !== null,
      }),
    };
  }
}

/**
 * Leases the pair of addresses of a replica. Returns undefined if the lease cannot be stored because the disk is full:
 * the engine then chooses the address, and the container can still start.
 */
function leaseAddressPair(store: Store, app: string, replica: number): number | undefined {
  try {
    return store.addresses.lease(app, replica);
  } catch (error) {
    if (error instanceof BerthError && error.code === "disk_full") return undefined;
    throw error;
  }
}
