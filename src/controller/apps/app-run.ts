import { RETRIED_AT, type Resource } from "../../resources/resource.ts";
import { emptyMemory, type ReconcilerMemory } from "../../resources/status.ts";
import type { Revision } from "../../store/store.ts";
import type { SourceState } from "../build/port.ts";
import type { Route } from "../ingress/port.ts";
import type { ObservedContainer } from "../runtime/port.ts";
import { buildStep } from "./build-step.ts";
import { isComplete } from "./complete.ts";
import type { ReconcileResult, ReconcilerContext } from "./context.ts";
import type { DesiredApp } from "./desired.ts";
import { sideBySide, startedAtMs } from "./executor.ts";
import { fail } from "./failure.ts";
import { inputsDigest } from "./inputs.ts";
import { type Mask, maskOf } from "./mask.ts";
import * as remember from "./memory.ts";
import type { ContainerHealth, Operation, Plan } from "./plan/model.ts";
import { hashOf, isUp } from "./plan/observed.ts";
import { planApp } from "./plan/plan.ts";
import { notePulled, pullStep } from "./pull-step.ts";
import { noteReady } from "./ready.ts";
import type { Reason } from "./reason.ts";
import { recoverFrom } from "./recovery.ts";
import { type Resolved, resolveApp } from "./resolve.ts";
import { findRevision, keepRevision } from "./revisions.ts";
import { runStatus } from "./run-status.ts";
import { lookAtSource, revisionOf, throwIfPassing } from "./source-look.ts";
import { cannotBeMade, versionFailure } from "./version-failure.ts";
import { nextLook } from "./waits.ts";

/** Rounds of look, plan and act in one run; what is left waits for the next run. */
const ROUNDS_MAX = 8;
/** The grace of containers whose App's spec cannot be worked out; Docker's own default. */
const UNKNOWN_GRACE_MS = 10_000;

/** One run of the reconciler over one App, from the first look to the status. */
export class AppRun {
  readonly #context: ReconcilerContext;
  readonly #resource: Resource<"App">;
  #memory: ReconcilerMemory;
  #containers: readonly ObservedContainer[] = [];
  #health = new Map<string, ContainerHealth>();
  #source: SourceState | null = null;
  #resolved: Resolved | null = null;
  #route: Route | null = null;
  #plan: Plan | null = null;
  #progress: Reason | null = null;
  #mask: Mask = (text) => text;
  #image: "present" | "absent" | "unknown" = "unknown";
  /** This round has taken the version up. */
  #isFresh = false;

  constructor(context: ReconcilerContext, resource: Resource<"App">) {
    this.#context = context;
    this.#resource = resource;
    this.#memory = { ...emptyMemory, ...resource.status?.memory };
  }

  async toCompletion(signal: AbortSignal): Promise<ReconcileResult> {
    const { metadata } = this.#resource;
    const inputs = inputsDigest(this.#context.store, this.#resource);
    this.#memory = remember.obeyInputs(
      this.#memory,
      metadata.annotations[RETRIED_AT] ?? null,
      inputs,
    );
    let isFinished = false;
    this.#memory = remember.obeyClock(this.#memory, this.#context.clock.now());
    for (let round = 0; round < ROUNDS_MAX && !isFinished && !this.#isOvertaken(); round += 1)
      isFinished = await this.#round(signal);
    if (!this.#isOvertaken()) this.#noteReady();
    this.writeStatus({});
    throwIfPassing(this.#context, this.#resource, this.#source);
    return this.#result(isFinished);
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
    this.#resolve();
    await this.#observe(signal);
    // Stalled: nothing is done until the spec, a secret or a person changes something.
    if (this.#memory.stalled) return true;
    const desired = this.#resolved?.desired;
    if (!desired) {
      const { running, suspend } = this.#resource.spec;
      if (running === false && suspend !== true) await this.#stopAll(signal);
      return true;
    }
    this.#trackAttempt(desired);
    await this.#lookForImage(desired, signal);
    const plan = this.#makePlan(desired);
    this.#plan = plan;
    const view = { desired, plan, memory: this.#memory, mask: this.#mask, ...this.#seen() };
    const failure = await versionFailure(this.#context, view, signal);
    if (failure) {
      this.#giveUp(desired, failure);
      return false;
    }
    return plan.operations.length === 0 || !(await this.#execute(plan, desired, signal));
  }

  #resolve(): void {
    const { store, ingress } = this.#context;
    this.#source = lookAtSource(this.#context, this.#resource);
    this.#resolved = resolveApp({
      store,
      resource: this.#resource,
      memory: this.#memory,
      ingress,
      source: this.#source,
      portOf: (app, replica, port) => store.ports.lease(app, replica, port),
    });
    const { quarantine, spec } = this.#resolved;
    this.#mask = maskOf(this.#context.store, [this.#resource.spec, spec]);
    if (this.#memory.quarantine !== quarantine) this.#memory = { ...this.#memory, quarantine };
  }

  async #observe(signal: AbortSignal): Promise<void> {
    const { runtime, store, health } = this.#context;
    const { name } = this.#resource.metadata;
    const filter = { instance: store.instanceId, app: name };
    const containers = await runtime.listContainers(filter, signal);
    this.#context.onObserved(name, containers);
    this.#containers = containers.map((container) =>
      container.error ? { ...container, error: this.#mask(container.error) } : container,
    );
    this.#route = await this.#context.ingress.table.read(name);
    const app = this.#resolved?.desired?.app;
    if (app) {
      const running = this.#containers
        .filter((container) => container.state === "running")
        .map((container) => ({ id: container.id, startedAtMs: startedAtMs(container) }));
      health.watch(name, running, app.healthCheck, app.rollout.progressDeadlineMs);
    }
    this.#health = new Map();
    for (const { id } of this.#containers) {
      const known = health.health(id);
      if (known) this.#health.set(id, { ...known, message: this.#mask(known.message) });
    }
  }

  async #stopAll(signal: AbortSignal): Promise<void> {
    const { aside, runtime, ingress } = this.#context;
    const { name } = this.#resource.metadata;
    if (this.#route && this.#route.targets.length > 0)
      await ingress.table.write(name, { version: this.#route.version, targets: [] });
    for (const { id } of this.#containers.filter(isUp))
      await aside(() => runtime.stopContainer(id, UNKNOWN_GRACE_MS, signal));
  }

  #trackAttempt(desired: DesiredApp): void {
    const { clock, looked } = this.#context;
    const isFirstLook = !looked.has(desired.name);
    looked.add(desired.name);
    this.#isFresh = false;
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
        isFirstLook ||
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

  /** The engine is only asked where an old version would be stopped for the new one: a creation tells by itself. */
  async #lookForImage(desired: DesiredApp, signal: AbortSignal): Promise<void> {
    const { images } = this.#context;
    const own = this.#containers.filter((container) => hashOf(container) === desired.hash);
    if (own.length >= desired.containers.length || !desired.app.running) return;
    if (desired.origin === "registry" && notePulled(this.#context, desired))
      this.#image = "present";
    const version = `${desired.name} ${desired.hash}`;
    const isRegistry = desired.origin === "registry";
    if (
      isRegistry &&
      desired.app.pullPolicy === "Always" &&
      own.length === 0 &&
      !images.isRefreshed(version)
    ) {
      this.#image = "absent";
    } else if (this.#containers.length > own.length || desired.origin === "source") {
      this.#image = await images.ask(desired.image, signal);
    }
  }

  #makePlan(desired: DesiredApp): Plan {
    const { stable, restarts, drifts } = this.#memory;
    return planApp(desired, {
      nowMs: this.#context.clock.now(),
      containers: this.#containers,
      health: this.#health,
      route: this.#route,
      image: this.#image,
      restarts,
      isFresh: this.#isFresh,
      drifts,
      stableReplicas: stable?.hash === desired.hash ? stable.replicas : 0,
      blockedBy: this.#resolved?.blocked?.message ?? null,
    });
  }

  #giveUp(desired: DesiredApp, failure: Reason): void {
    const masked = this.#masked(failure);
    this.#memory = fail(this.#context.store, this.#resource, desired, this.#memory, masked);
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
      if (operation.type === "pullImage" || operation.type === "buildImage") {
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
          const view = { desired, memory: this.#memory };
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
  #obtain(operation: Operation & { readonly image: string }, desired: DesiredApp): boolean {
    // Waiting for a registry or a build is not the version's fault: the deadline does not run meanwhile.
    const steps = this.#memory.attempt?.steps ?? 0;
    this.#memory = remember.noteProgress(this.#memory, this.#context.clock.now(), steps, true);
    const step =
      operation.type === "buildImage"
        ? buildStep(
            this.#context,
            this.#asDesired(),
            desired,
            revisionOf(this.#context, this.#source, desired.image),
          )
        : pullStep(this.#context, operation.image, desired);
    if (step.type === "waiting") this.#progress = step.progress;
    else if (step.type === "done") this.#image = "present";
    else this.#giveUp(desired, step.failure);
    return step.type !== "waiting";
  }

  /** The App with the spec that `desired` was made from. */
  #asDesired(): Resource<"App"> {
    return { ...this.#resource, spec: this.#resolved?.spec ?? this.#resource.spec };
  }

  /** A restart is written down before it happens, so that a crash of Berth makes none of them free. */
  #noteBefore(operation: Operation, desired: DesiredApp): void {
    if (operation.type !== "startContainer" || operation.restart === null) return;
    const { clock } = this.#context;
    this.#memory = remember.noteRestart(this.#memory, desired, operation.restart, clock.now());
    this.#say("Warning", "Restarting", `${operation.name}: ${operation.cause}`);
    this.writeStatus({ progress: { reason: "Restarting", message: operation.cause } });
  }

  #noteAfter(operation: Operation): void {
    if (operation.type !== "switchRoute" || operation.targets.length === 0) return;
    const count = operation.targets.length;
    const to = `${count} ${count === 1 ? "container" : "containers"}`;
    if (operation.version !== this.#route?.version)
      this.#say("Normal", "Switched", `requests go to ${to} of the new version`);
  }

  #noteCorrections(plan: Plan, desired: DesiredApp): void {
    if (plan.corrections.length === 0) return;
    this.#memory = remember.noteCorrections(
      this.#memory,
      plan.corrections,
      this.#context.clock.now(),
    );
    for (const field of plan.corrections) {
      this.#say(
        "Warning",
        "DriftCorrected",
        `${desired.name}: "${field}" was changed by hand and is put right`,
      );
    }
    this.writeStatus({});
  }

  #noteReady(): void {
    const desired = this.#resolved?.desired;
    const isAttempt = desired !== undefined && desired?.hash === this.#memory.attempt?.hash;
    if (!desired || !isAttempt || this.#memory.stalled || this.#resolved?.held) return;
    this.#memory = noteReady(this.#context, this.#memory, {
      desired,
      revision: this.#revision(),
      isComplete: isComplete(desired, this.#seen()),
    });
  }

  #masked({ reason, message }: Reason): Reason {
    return { reason, message: this.#mask(message) };
  }

  #say(type: "Normal" | "Warning", reason: string, message: string): void {
    const { name } = this.#resource.metadata;
    this.#context.store.events.record({ kind: "App", name, type, reason, message });
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
    if (!desired || this.#memory.stalled) return { settled: true, requeueAfterMs: null };
    const isDone = isComplete(desired, this.#seen());
    return {
      settled: isDone || !desired.app.running || desired.app.suspend,
      requeueAfterMs: nextLook({
        desired,
        nowMs: this.#context.clock.now(),
        isFinished,
        isDone,
        plan: this.#plan,
        memory: this.#memory,
        containers: this.#containers,
        isObtaining: this.#progress !== null,
      }),
    };
  }
}
