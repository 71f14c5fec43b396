import { RETRIED_AT, type Resource } from "../../resources/resource.ts";
import { emptyMemory, type ReconcilerMemory } from "../../resources/status.ts";
import type { Revision } from "../../store/store.ts";
import type { SourceState } from "../builds/port.ts";
import type { Route } from "../ingress/port.ts";
import type { Reason } from "../reason.ts";
import type { ReconcileResult } from "../reconcile-loop.ts";
import type { ObservedContainer } from "../runtime/port.ts";
import { type Mask, maskOf } from "../secrets/mask.ts";
import { isComplete, servingVersion } from "./complete.ts";
import type { ReconcilerContext } from "./context.ts";
import type { DesiredApp } from "./desired.ts";
import { sideBySide } from "./executor.ts";
import { fail } from "./failure.ts";
import { noteSight, type Sight } from "./found-again.ts";
import { lookForImage } from "./image-look.ts";
import { inputsDigest } from "./inputs.ts";
import { lookAtApp, stopAll } from "./look.ts";
import * as remember from "./memory.ts";
import { isObtaining, type Obtaining, obtainImage } from "./obtain.ts";
import type { ContainerHealth, Operation, Plan } from "./plan/model.ts";
import { hasEndedByItself, planApp } from "./plan/plan.ts";
import { noteReady } from "./ready.ts";
import { recoverFrom } from "./recovery.ts";
import { type Resolved, type ResolveInput, resolveApp, servingRevision } from "./resolve.ts";
import { findRevision, keepRevision } from "./revisions.ts";
import { unreachable } from "./routed.ts";
import { runStatus } from "./run-status.ts";
import { lookAtSource, throwIfPassing } from "./source-look.ts";
import { cannotBeMade, versionFailure } from "./version-failure.ts";
import { nextLook } from "./waits.ts";

/** Rounds of look, plan and act in one run; what is left waits for the next run. */
const ROUNDS_MAX = 8;

/** One run of the reconciler over one App, from the first look to the status. */
export class AppRun {
  readonly #context: ReconcilerContext;
  readonly #resource: Resource<"App">;
  #memory: ReconcilerMemory;
  #containers: readonly ObservedContainer[] = [];
  #health = new Map<string, ContainerHealth>();
  #source: SourceState | null = null;
  #asked: ResolveInput | null = null;
  #resolved: Resolved | null = null;
  #route: Route | null = null;
  #plan: Plan | null = null;
  #progress: Reason | null = null;
  #mask: Mask = (text) => text;
  #image: "present" | "absent" | "unknown" = "unknown";
  /** This round has taken the version up, or found it again after the engine was lost. */
  #isFresh = false;

  constructor(context: ReconcilerContext, resource: Resource<"App">) {
    this.#context = context;
    this.#resource = resource;
    this.#memory = { ...emptyMemory, ...resource.status?.memory };
  }

  async toCompletion(signal: AbortSignal): Promise<ReconcileResult> {
    const { metadata } = this.#resource;
    this.#source = lookAtSource(this.#context, this.#resource);
    this.#memory = remember.obeyInputs(
      this.#memory,
      metadata.annotations[RETRIED_AT] ?? null,
      this.#inputs(),
    );
    this.#memory = remember.obeyClock(this.#memory, this.#context.clock.now());
    let isFinished = false;
    for (let round = 0; round < ROUNDS_MAX && !isFinished && !this.#isOvertaken(); round += 1)
      isFinished = await this.#round(signal);
    if (!this.#isOvertaken()) this.#noteReady();
    this.writeStatus({});
    throwIfPassing(this.#context, this.#resource, this.#source);
    return this.#result(isFinished);
  }

  #inputs(): string {
    const revision = this.#source?.type === "resolved" ? this.#source.revision : null;
    return inputsDigest(this.#context.store, this.#resource, revision);
  }

  /** True where the App has become another one since the run began: the next run is queued already. */
  #isOvertaken(): boolean {
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
    const status = runStatus(this.#context, {
      resource: this.#resource,
      memory: this.#memory,
      source: this.#source,
      resolved: this.#resolved,
      ...this.#seen(),
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
        await stopAll(this.#context, this.#resource.metadata.name, this.#seen(), signal);
      return true;
    }
    if (isStalled && !desired.app.running) return true;
    const sight = noteSight(this.#context, desired, this.#containers);
    this.#isFresh = sight.isBack;
    if (!isStalled) {
      this.#trackAttempt(desired, sight);
      const look = await lookForImage(this.#context, desired, this.#containers, signal);
      this.#image = look ?? this.#image;
    }
    const plan = this.#makePlan(desired);
    this.#plan = plan;
    // An engine that is going ends its containers: that is none of their own faults, and no time to start them.
    if (sight.isBack || hasEndedByItself(plan)) {
      await this.#context.runtime.ping(signal);
      // Behind systemd's socket the next engine answers, and what was seen is of the one before.
      if (!sight.isBack && this.#context.lostSight.has(desired.name)) return false;
    }
    // Stalled: nothing is tried until the spec, a secret or a person changes something; what serves is kept up.
    if (isStalled) return this.#carryOut(plan, desired, sight, signal);
    const serving = this.#serving();
    const view = {
      desired,
      plan,
      memory: this.#memory,
      serving,
      mask: this.#mask,
      ...this.#seen(),
    };
    const failure = await versionFailure(this.#context, view, signal);
    if (failure) {
      this.#giveUp(desired, failure);
      return false;
    }
    return this.#carryOut(plan, desired, sight, signal);
  }

  /** True where nothing is left to do now. What was found again stays so until something has come of it. */
  async #carryOut(
    plan: Plan,
    desired: DesiredApp,
    { isBack }: Sight,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { lostSight } = this.#context;
    // Before the plan is carried out, since the engine may be lost meanwhile.
    if (isBack) lostSight.delete(desired.name);
    try {
      return plan.operations.length === 0 || !(await this.#execute(plan, desired, signal));
    } catch (error) {
      if (isBack) lostSight.add(desired.name);
      throw error;
    }
  }

  #resolve(): void {
    const { store, ingress } = this.#context;
    this.#source = lookAtSource(this.#context, this.#resource);
    this.#asked = {
      store,
      resource: this.#resource,
      memory: this.#memory,
      ingress,
      source: this.#source,
      serving: servingVersion(this.#route, this.#memory),
      portOf: (app, replica, port) => store.ports.lease(app, replica, port),
      modelDoor: this.#context.modelDoor,
    };
    this.#resolved = resolveApp(this.#asked);
    const { quarantine, spec } = this.#resolved;
    this.#mask = maskOf(this.#context.store, [this.#resource.spec, spec]);
    if (this.#memory.quarantine !== quarantine) this.#memory = { ...this.#memory, quarantine };
  }

  async #observe(signal: AbortSignal): Promise<void> {
    const { name } = this.#resource.metadata;
    const desired = this.#resolved?.desired ?? null;
    const look = await lookAtApp(this.#context, name, desired, this.#mask, signal);
    this.#containers = look.containers;
    this.#health = look.health;
    this.#route = look.route;
  }

  #trackAttempt(desired: DesiredApp, { isFirst, isBack }: Sight): void {
    const { clock } = this.#context;
    if (desired.app.suspend) return;
    if (!desired.app.running) {
      this.#memory = { ...this.#memory, attempt: null };
      return;
    }
    const steps = remember.stepsOf(desired, this.#containers, this.#health);
    if (this.#memory.attempt?.hash === desired.hash) {
      // However long Berth or the engine was away, no deadline counts that time against a version, nor
      // any before its first probe.
      const isWaiting =
        isFirst ||
        isBack ||
        this.#resolved?.blocked !== null ||
        remember.isUnprobed(desired, this.#containers, this.#health);
      this.#memory = remember.noteProgress(this.#memory, clock.now(), steps, isWaiting);
      // How a version is judged may change while it runs; it is come back to with what held last.
      if (this.#resource.status?.observedGeneration !== desired.generation)
        this.#keepRevision(desired);
      return;
    }
    this.#keepRevision(desired);
    this.#isFresh = true;
    this.#memory = remember.beginAttempt(this.#memory, desired.hash, clock.now(), steps);
  }

  #keepRevision(desired: DesiredApp): void {
    keepRevision(this.#context.store, desired, this.#resolved?.spec ?? this.#resource.spec);
  }

  #makePlan(desired: DesiredApp): Plan {
    const { stable, restarts, drifts } = this.#memory;
    const { clock, sightings, stops } = this.#context;
    return planApp(desired, {
      nowMs: clock.now(),
      ...this.#seen(),
      image: this.#image,
      restarts,
      isFresh: this.#isFresh,
      drifts,
      stableReplicas: stable?.hash === desired.hash ? stable.replicas : 0,
      blockedBy: this.#resolved?.blocked?.message ?? null,
      served: this.#memory.served,
      seen: sightings.note(desired, this.#seen(), clock.now()),
      stopping: stops.underWay,
      isStalled: this.#memory.stalled !== null,
    });
  }

  #giveUp(desired: DesiredApp, failure: Reason): void {
    const masked = { reason: failure.reason, message: this.#mask(failure.message) };
    this.#memory = fail(this.#context.store, this.#resource, desired, this.#memory, masked, {
      serving: this.#serving(),
      inputs: this.#inputs(),
    });
    this.#image = "unknown";
    this.#plan = null;
  }

  /** False where the rest waits for something; otherwise the next round looks at what has become of it. */
  async #execute(plan: Plan, desired: DesiredApp, signal: AbortSignal): Promise<boolean> {
    const created = new Map<string, string>();
    this.#noteCorrections(plan, desired);
    let hasActed = false;
    for (const operations of sideBySide(plan.operations)) {
      const [operation] = operations;
      if (!operation || this.#isOvertaken()) return false;
      if (isObtaining(operation)) {
        if (this.#obtain(operation, desired)) return true;
        continue;
      }
      this.#noteBefore(operation, desired);
      try {
        await this.#context.executor.executeAll(operations, desired.name, created, signal);
        hasActed = true;
      } catch (error) {
        const recovery = recoverFrom(this.#context, operation, desired, error);
        if (recovery === "wait") {
          const view = { desired, memory: this.#memory, serving: this.#serving() };
          const failure = cannotBeMade(this.#context, this.#resource, view, operation, error);
          if (!failure) throw error;
          this.#giveUp(desired, failure);
        }
        if (recovery === "image-absent") this.#image = "absent";
        return true;
      }
      this.#noteAfter(operation);
    }
    return hasActed;
  }

  /** True where the plan is to be made anew: the image is there, or the version was given up. Throws to back off. */
  #obtain(operation: Obtaining, desired: DesiredApp): boolean {
    // Waiting for a registry or a build is not the version's fault: the deadline does not run meanwhile.
    const steps = this.#memory.attempt?.steps ?? 0;
    this.#memory = remember.noteProgress(this.#memory, this.#context.clock.now(), steps, true);
    const resource = { ...this.#resource, spec: this.#resolved?.spec ?? this.#resource.spec };
    const step = obtainImage(this.#context, operation, { resource, desired, source: this.#source });
    if (step.type === "waiting") this.#progress = step.progress;
    else if (step.type === "done") this.#image = "present";
    else this.#giveUp(desired, step.failure);
    return step.type !== "waiting";
  }

  /** A restart is written down before it happens, so that a crash of Berth makes none of them free. */
  #noteBefore(operation: Operation, desired: DesiredApp): void {
    if (operation.type === "switchRoute" && operation.targets.length > 0) {
      const { served } = this.#memory;
      this.#memory = remember.noteServed(this.#memory, operation.version);
      if (this.#memory.served !== served) this.writeStatus({});
      return;
    }
    if (operation.type !== "startContainer" || operation.restart === null) return;
    const { clock } = this.#context;
    this.#memory = remember.noteRestart(this.#memory, desired, operation.restart, clock.now());
    this.#say("Warning", "Restarting", `${operation.name}: ${operation.cause}`);
    this.writeStatus({ progress: { reason: "Restarting", message: operation.cause } });
  }

  #noteAfter(operation: Operation): void {
    if (operation.type !== "switchRoute" || operation.targets.length === 0) return;
    if (operation.version === this.#route?.version) return;
    const count = operation.targets.length;
    const to = count === 1 ? "1 container" : `${count} containers`;
    this.#say("Normal", "Switched", `requests go to ${to} of the new version`);
  }

  #noteCorrections(plan: Plan, desired: DesiredApp): void {
    if (plan.corrections.length === 0) return;
    const now = this.#context.clock.now();
    this.#memory = remember.noteCorrections(this.#memory, plan.corrections, now);
    for (const field of plan.corrections) {
      const message = `${desired.name}: "${field}" was changed by hand and is put right`;
      this.#say("Warning", "DriftCorrected", message);
    }
    this.writeStatus({});
  }

  #noteReady(): void {
    const desired = this.#resolved?.desired;
    const isAttempt = desired !== undefined && desired?.hash === this.#memory.attempt?.hash;
    if (!desired || !isAttempt || this.#memory.stalled || this.#resolved?.held) return;
    const isReached =
      unreachable({ resource: this.#resource, desired, ingress: this.#context.ingress }) === null;
    this.#memory = noteReady(this.#context, this.#memory, {
      desired,
      revision: this.#revision(),
      isComplete: isReached && isComplete(desired, this.#seen()),
    });
  }

  #say(type: "Normal" | "Warning", reason: string, message: string): void {
    const { name } = this.#resource.metadata;
    this.#context.store.events.record({ kind: "App", name, type, reason, message });
  }

  /** The revision of another version than the wanted one that has the App's requests. */
  #serving(): Revision | undefined {
    const isOther = this.#asked && this.#asked.serving !== this.#resolved?.desired?.hash;
    return this.#asked && isOther ? servingRevision(this.#asked) : undefined;
  }

  #seen() {
    return { containers: this.#containers, health: this.#health, route: this.#route };
  }

  /** The revision of the spec that is being worked towards. */
  #revision(): Revision | undefined {
    const { store } = this.#context;
    const spec = this.#resolved?.spec ?? this.#resource.spec;
    const image = this.#resolved?.desired?.image ?? null;
    return findRevision(store, this.#resource.metadata.name, spec, image);
  }

  #result(isFinished: boolean): ReconcileResult {
    const desired = this.#resolved?.desired;
    if (!desired) return { settled: true, requeueAfterMs: null };
    const isStalled = this.#memory.stalled !== null;
    const isDone = isComplete(desired, this.#seen());
    return {
      settled: isStalled || isDone || !desired.app.running || desired.app.suspend,
      requeueAfterMs: nextLook({
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
