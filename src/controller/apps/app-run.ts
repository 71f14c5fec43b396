import { emptyReconcileState, type ReconcileState } from "../../resources/app-status.ts";
import { RETRIED_AT_ANNOTATION, type Resource } from "../../resources/resource.ts";
import type { Revision } from "../../store/store.ts";
import type { SourceState } from "../builds/port.ts";
import type { AppRoute } from "../ingress/port.ts";
import type { Reason } from "../reason.ts";
import type { ReconcileResult } from "../reconcile-loop.ts";
import type { ObservedContainer } from "../runtime/port.ts";
import { createSecretMask, type SecretMask } from "../secrets/app-secret-mask.ts";
import { inputsDigest } from "./app-inputs.ts";
import { isComplete, servingVersion } from "./app-readiness.ts";
import type { DesiredApp } from "./desired-app.ts";
import { type EngineRecovery, trackEngineRecovery } from "./engine-recovery.ts";
import { noteReady } from "./note-ready.ts";
import { observeApp, stopAllContainers } from "./observe-app.ts";
import { observeImage } from "./observe-image.ts";
import { observeSource, throwIfTransient } from "./observe-source.ts";
import { type ImageOperation, isImageOperation, obtainImage } from "./obtain-image.ts";
import { recoverFromFailure } from "./operation-recovery.ts";
import { hasUnexpectedEnd, planApp } from "./plan/plan-app.ts";
import type { ContainerHealth, Operation, Plan } from "./plan/plan-types.ts";
import { groupConcurrentStops } from "./plan-executor.ts";
import * as reconcileState from "./reconcile-state.ts";
import type { ReconcilerContext } from "./reconciler-context.ts";
import { requeueAfter } from "./requeue-after.ts";
import {
  findServingRevision,
  type ResolveAppInput,
  type ResolvedApp,
  resolveApp,
} from "./resolve-app.ts";
import { revertOrStall } from "./revert-or-stall.ts";
import { findRevision, keepRevision } from "./revisions.ts";
import { findRoutingProblem } from "./routed-condition.ts";
import { buildRunStatus } from "./run-status.ts";
import { findCreationFailure, findVersionFailure } from "./version-failure.ts";

/** Rounds of look, plan and act in one run; what is left waits for the next run. */
const ROUNDS_MAX = 8;

/** One run of the reconciler over one App, from the first look to the status. */
export class AppRun {
  readonly #context: ReconcilerContext;
  readonly #resource: Resource<"App">;
  #memory: ReconcileState;
  #containers: readonly ObservedContainer[] = [];
  #health = new Map<string, ContainerHealth>();
  #source: SourceState | null = null;
  #resolveInput: ResolveAppInput | null = null;
  #resolved: ResolvedApp | null = null;
  #route: AppRoute | null = null;
  #plan: Plan | null = null;
  #progress: Reason | null = null;
  #mask: SecretMask = (text) => text;
  #image: "present" | "absent" | "unknown" = "unknown";
  /** This round has taken the version up, or found it again after the engine was lost. */
  #isFresh = false;

  constructor(context: ReconcilerContext, resource: Resource<"App">) {
    this.#context = context;
    this.#resource = resource;
    this.#memory = { ...emptyReconcileState, ...resource.status?.memory };
  }

  async run(signal: AbortSignal): Promise<ReconcileResult> {
    const { metadata } = this.#resource;
    this.#source = observeSource(this.#context, this.#resource);
    this.#memory = reconcileState.applyInputs(
      this.#memory,
      metadata.annotations[RETRIED_AT_ANNOTATION] ?? null,
      this.#inputsDigest(),
    );
    this.#memory = reconcileState.clampToClock(this.#memory, this.#context.clock.now());
    let isFinished = false;
    for (let round = 0; round < ROUNDS_MAX && !isFinished && !this.#isSuperseded(); round += 1)
      isFinished = await this.#round(signal);
    if (!this.#isSuperseded()) this.#noteReady();
    this.writeStatus({});
    throwIfTransient(this.#context, this.#resource, this.#source);
    return this.#buildResult(isFinished);
  }

  #inputsDigest(): string {
    const revision = this.#source?.type === "resolved" ? this.#source.revision : null;
    return inputsDigest(this.#context.store, this.#resource, revision);
  }

  /** True where the App has become another one since the run began: the next run is queued already. */
  #isSuperseded(): boolean {
    const { name, uid, generation, deletionTimestamp } = this.#resource.metadata;
    const now = this.#context.store.get("App", name)?.metadata;
    return (
      now?.uid !== uid ||
      now.generation !== generation ||
      now.deletionTimestamp !== deletionTimestamp
    );
  }

  /** Writes what this run has found; what is given takes the place of what it knows. */
  writeStatus(override: { unknown?: string | null; progress?: Reason | null }): void {
    const { name, uid } = this.#resource.metadata;
    const status = buildRunStatus(this.#context, {
      resource: this.#resource,
      memory: this.#memory,
      source: this.#source,
      resolved: this.#resolved,
      ...this.#observation(),
      plan: this.#plan,
      progress: override.progress ?? this.#progress,
      unknown: override.unknown ?? null,
      mask: this.#mask,
    });
    this.#context.store.setStatus("App", name, uid, status);
  }

  /** Look, plan, act. True where nothing is left to do now. */
  async #round(signal: AbortSignal): Promise<boolean> {
    this.#route = await this.#context.ingress.table.read(this.#resource.metadata.name);
    this.#resolve();
    await this.#observe(signal);
    const isStalled = this.#memory.stalled !== null;
    const desired = this.#resolved?.desired;
    if (!desired) {
      const { running, suspend } = this.#resource.spec;
      if (running === false && suspend !== true)
        await stopAllContainers(
          this.#context,
          this.#resource.metadata.name,
          this.#observation(),
          signal,
        );
      return true;
    }
    if (isStalled && !desired.app.running) return true;
    const recovery = trackEngineRecovery(this.#context, desired, this.#containers);
    this.#isFresh = recovery.hasEndedWithEngine;
    if (!isStalled) {
      this.#trackAttempt(desired, recovery);
      const imagePresence = await observeImage(this.#context, desired, this.#containers, signal);
      this.#image = imagePresence ?? this.#image;
    }
    const plan = this.#makePlan(desired);
    this.#plan = plan;
    // An engine that is going ends its containers: that is none of their own faults, and no time to start them.
    if (recovery.hasEndedWithEngine || hasUnexpectedEnd(plan)) {
      await this.#context.runtime.ping(signal);
      // Behind systemd's socket the next engine answers, and what was seen is of the one before.
      if (!recovery.hasEndedWithEngine && this.#context.appsEndedWithEngine.has(desired.name))
        return false;
    }
    // Stalled: nothing is tried until the spec, a secret or a person changes something; what serves is kept up.
    if (isStalled) return this.#executePlan(plan, desired, recovery, signal);
    const serving = this.#findServingRevision();
    const view = {
      desired,
      plan,
      memory: this.#memory,
      serving,
      mask: this.#mask,
      ...this.#observation(),
    };
    const failure = await findVersionFailure(this.#context, view, signal);
    if (failure) {
      this.#failVersion(desired, failure);
      return false;
    }
    return this.#executePlan(plan, desired, recovery, signal);
  }

  /** True where nothing is left to do now. What was found again stays so until something has come of it. */
  async #executePlan(
    plan: Plan,
    desired: DesiredApp,
    { hasEndedWithEngine: isBack }: EngineRecovery,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { appsEndedWithEngine: lostSight } = this.#context;
    // Before the plan is carried out, since the engine may be lost meanwhile.
    if (isBack) lostSight.delete(desired.name);
    try {
      return (
        plan.operations.length === 0 || !(await this.#executeOperations(plan, desired, signal))
      );
    } catch (error) {
      if (isBack) lostSight.add(desired.name);
      throw error;
    }
  }

  #resolve(): void {
    const { store, ingress } = this.#context;
    this.#source = observeSource(this.#context, this.#resource);
    this.#resolveInput = {
      store,
      resource: this.#resource,
      memory: this.#memory,
      ingress,
      source: this.#source,
      serving: servingVersion(this.#route, this.#memory),
      getLoopbackPort: (app, replica, port) => store.ports.lease(app, replica, port),
      containerListener: this.#context.containerListener,
    };
    this.#resolved = resolveApp(this.#resolveInput);
    const { quarantine, spec } = this.#resolved;
    this.#mask = createSecretMask(this.#context.store, [this.#resource.spec, spec]);
    if (this.#memory.quarantine !== quarantine) this.#memory = { ...this.#memory, quarantine };
  }

  async #observe(signal: AbortSignal): Promise<void> {
    const { name } = this.#resource.metadata;
    const desired = this.#resolved?.desired ?? null;
    const observation = await observeApp(this.#context, name, desired, this.#mask, signal);
    this.#containers = observation.containers;
    this.#health = observation.health;
    this.#route = observation.route;
  }

  #trackAttempt(
    desired: DesiredApp,
    { isFirstObservation: isFirst, hasEndedWithEngine: isBack }: EngineRecovery,
  ): void {
    const { clock } = this.#context;
    if (desired.app.suspend) return;
    if (!desired.app.running) {
      this.#memory = { ...this.#memory, attempt: null };
      return;
    }
    const steps = reconcileState.countSteps(desired, this.#containers, this.#health);
    if (this.#memory.attempt?.hash === desired.hash) {
      // However long Berth or the engine was away, no deadline counts that time against a version, nor
      // any before its first probe.
      const isWaiting =
        isFirst ||
        isBack ||
        this.#resolved?.blocked !== null ||
        reconcileState.isUnprobed(desired, this.#containers, this.#health);
      this.#memory = reconcileState.noteProgress(this.#memory, clock.now(), steps, isWaiting);
      // How a version is judged may change while it runs; it is come back to with what held last.
      if (this.#resource.status?.observedGeneration !== desired.generation)
        this.#keepRevision(desired);
      return;
    }
    this.#keepRevision(desired);
    this.#isFresh = true;
    this.#memory = reconcileState.beginAttempt(this.#memory, desired.hash, clock.now(), steps);
  }

  #keepRevision(desired: DesiredApp): void {
    keepRevision(this.#context.store, desired, this.#resolved?.spec ?? this.#resource.spec);
  }

  #makePlan(desired: DesiredApp): Plan {
    const { stable, restarts, drifts } = this.#memory;
    const { clock, firstSeenTimes: sightings, stops } = this.#context;
    return planApp(desired, {
      nowMs: clock.now(),
      ...this.#observation(),
      image: this.#image,
      restarts,
      isFresh: this.#isFresh,
      drifts,
      stableReplicas: stable?.hash === desired.hash ? stable.replicas : 0,
      blockedBy: this.#resolved?.blocked?.message ?? null,
      served: this.#memory.served,
      firstSeen: sightings.update(desired, this.#observation(), clock.now()),
      stopping: stops.stoppingIds,
      isStalled: this.#memory.stalled !== null,
    });
  }

  #failVersion(desired: DesiredApp, failure: Reason): void {
    const masked = { reason: failure.reason, message: this.#mask(failure.message) };
    this.#memory = revertOrStall(
      this.#context.store,
      this.#resource,
      desired,
      this.#memory,
      masked,
      {
        serving: this.#findServingRevision(),
        inputs: this.#inputsDigest(),
      },
    );
    this.#image = "unknown";
    this.#plan = null;
  }

  /** False where the rest waits for something; otherwise the next round looks at what has become of it. */
  async #executeOperations(plan: Plan, desired: DesiredApp, signal: AbortSignal): Promise<boolean> {
    const created = new Map<string, string>();
    this.#noteCorrections(plan, desired);
    let hasActed = false;
    for (const operations of groupConcurrentStops(plan.operations)) {
      const [operation] = operations;
      if (!operation || this.#isSuperseded()) return false;
      if (isImageOperation(operation)) {
        if (this.#obtainImage(operation, desired)) return true;
        continue;
      }
      this.#noteBefore(operation, desired);
      try {
        await this.#context.executor.executeAll(operations, desired.name, created, signal);
        hasActed = true;
      } catch (error) {
        const recovery = recoverFromFailure(this.#context, operation, desired, error);
        if (recovery === "wait") {
          const view = { desired, memory: this.#memory, serving: this.#findServingRevision() };
          const failure = findCreationFailure(
            this.#context,
            this.#resource,
            view,
            operation,
            error,
          );
          if (!failure) throw error;
          this.#failVersion(desired, failure);
        }
        if (recovery === "image-absent") this.#image = "absent";
        return true;
      }
      this.#noteAfter(operation);
    }
    return hasActed;
  }

  /** True where the plan is to be made anew: the image is there, or the version was given up. Throws to back off. */
  #obtainImage(operation: ImageOperation, desired: DesiredApp): boolean {
    // Waiting for a registry or a build is not the version's fault: the deadline does not run meanwhile.
    const steps = this.#memory.attempt?.steps ?? 0;
    this.#memory = reconcileState.noteProgress(
      this.#memory,
      this.#context.clock.now(),
      steps,
      true,
    );
    const resource = { ...this.#resource, spec: this.#resolved?.spec ?? this.#resource.spec };
    const step = obtainImage(this.#context, operation, { resource, desired, source: this.#source });
    if (step.type === "waiting") this.#progress = step.progress;
    else if (step.type === "done") this.#image = "present";
    else this.#failVersion(desired, step.failure);
    return step.type !== "waiting";
  }

  /** A restart is written down before it happens, so that a crash of Berth makes none of them free. */
  #noteBefore(operation: Operation, desired: DesiredApp): void {
    if (operation.type === "switchRoute" && operation.targets.length > 0) {
      const { served } = this.#memory;
      this.#memory = reconcileState.noteServed(this.#memory, operation.version);
      if (this.#memory.served !== served) this.writeStatus({});
      return;
    }
    if (operation.type !== "startContainer" || operation.restart === null) return;
    const { clock } = this.#context;
    this.#memory = reconcileState.noteRestart(
      this.#memory,
      desired,
      operation.restart,
      clock.now(),
    );
    this.#recordEvent("Warning", "Restarting", `${operation.name}: ${operation.cause}`);
    this.writeStatus({ progress: { reason: "Restarting", message: operation.cause } });
  }

  #noteAfter(operation: Operation): void {
    if (operation.type !== "switchRoute" || operation.targets.length === 0) return;
    if (operation.version === this.#route?.version) return;
    const count = operation.targets.length;
    const to = count === 1 ? "1 container" : `${count} containers`;
    this.#recordEvent("Normal", "Switched", `requests go to ${to} of the new version`);
  }

  #noteCorrections(plan: Plan, desired: DesiredApp): void {
    if (plan.corrections.length === 0) return;
    const now = this.#context.clock.now();
    this.#memory = reconcileState.noteCorrections(this.#memory, plan.corrections, now);
    for (const field of plan.corrections) {
      const message = `${desired.name}: "${field}" was changed by hand and is put right`;
      this.#recordEvent("Warning", "DriftCorrected", message);
    }
    this.writeStatus({});
  }

  #noteReady(): void {
    const desired = this.#resolved?.desired;
    const isAttempt = desired !== undefined && desired?.hash === this.#memory.attempt?.hash;
    if (!desired || !isAttempt || this.#memory.stalled || this.#resolved?.held) return;
    const isReached =
      findRoutingProblem({ resource: this.#resource, desired, ingress: this.#context.ingress }) ===
      null;
    this.#memory = noteReady(this.#context, this.#memory, {
      desired,
      revision: this.#findTargetRevision(),
      isComplete: isReached && isComplete(desired, this.#observation()),
    });
  }

  #recordEvent(type: "Normal" | "Warning", reason: string, message: string): void {
    const { name } = this.#resource.metadata;
    this.#context.store.events.record({ kind: "App", name, type, reason, message });
  }

  /** The revision of another version than the wanted one that has the App's requests. */
  #findServingRevision(): Revision | undefined {
    const isOther =
      this.#resolveInput && this.#resolveInput.serving !== this.#resolved?.desired?.hash;
    return this.#resolveInput && isOther ? findServingRevision(this.#resolveInput) : undefined;
  }

  #observation() {
    return { containers: this.#containers, health: this.#health, route: this.#route };
  }

  /** The revision of the spec that is being worked towards. */
  #findTargetRevision(): Revision | undefined {
    const { store } = this.#context;
    const spec = this.#resolved?.spec ?? this.#resource.spec;
    const image = this.#resolved?.desired?.image ?? null;
    return findRevision(store, this.#resource.metadata.name, spec, image);
  }

  #buildResult(isFinished: boolean): ReconcileResult {
    const desired = this.#resolved?.desired;
    if (!desired) return { isSettled: true, requeueAfterMs: null };
    const isStalled = this.#memory.stalled !== null;
    const isDone = isComplete(desired, this.#observation());
    return {
      isSettled: isStalled || isDone || !desired.app.running || desired.app.suspend,
      requeueAfterMs: requeueAfter({
        desired,
        nowMs: this.#context.clock.now(),
        isFinished,
        isDone,
        isStalled,
        plan: this.#plan,
        memory: this.#memory,
        containers: this.#containers,
        isObtaining: this.#progress !== null,
      }),
    };
  }
}
