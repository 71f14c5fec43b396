import { RETRIED_AT, type Resource } from "../../resources/resource.ts";
import { type AppStatus, emptyMemory, type ReconcilerMemory } from "../../resources/status.ts";
import type { Revision } from "../../store/store.ts";
import type { ObservedContainer } from "../runtime/port.ts";
import type { ReconcileResult, ReconcilerContext } from "./context.ts";
import { type DesiredApp, revisionHash } from "./desired.ts";
import { startedAtMs } from "./executor.ts";
import { fail, lastGood } from "./failure.ts";
import { inputsDigest } from "./inputs.ts";
import { type Mask, maskOf } from "./mask.ts";
import * as remember from "./memory.ts";
import { type ContainerHealth, hashOf, isUp, type Operation, type Plan, planApp } from "./plan.ts";
import { notePulled, pullStep } from "./pull-step.ts";
import { recoverFrom } from "./recovery.ts";
import { type Resolved, resolveApp } from "./resolve.ts";
import { appStatus, isComplete, type Reason } from "./status.ts";
import { cannotBeMade, versionFailure } from "./version-failure.ts";

/** Rounds of look, plan and act in one run; what is left waits for the next run. */
const ROUNDS_MAX = 8;
const UNFINISHED_RETRY_MS = 250;
/** The grace of containers whose App's spec cannot be worked out; Docker's own default. */
const UNKNOWN_GRACE_MS = 10_000;

/** One run of the reconciler over one App, from the first look to the status. */
export class AppRun {
  readonly #context: ReconcilerContext;
  readonly #resource: Resource<"App">;
  #memory: ReconcilerMemory;
  #containers: readonly ObservedContainer[] = [];
  #health = new Map<string, ContainerHealth>();
  #resolved: Resolved | null = null;
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
    const { store, clock } = this.#context;
    const { name, uid } = this.#resource.metadata;
    const progress = override.progress ?? this.#progress;
    const status = appStatus({
      resource: this.#resource,
      nowMs: clock.now(),
      memory: this.#memory,
      containers: this.#containers,
      health: this.#health,
      desired: this.#resolved?.desired ?? null,
      plan: this.#plan,
      refused: this.#resolved?.refused ?? null,
      blocked: this.#resolved?.blocked ?? null,
      progress: progress && this.#masked(progress),
      unknown: override.unknown ?? null,
      revisions: this.#revisions(),
      nextRetryAtMs: this.#plan?.restartAtMs ?? null,
      domain: this.#resource.spec.domain ?? null,
    });
    store.setStatus("App", name, uid, status);
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
    const view = {
      desired,
      plan,
      containers: this.#containers,
      health: this.#health,
      memory: this.#memory,
      mask: this.#mask,
    };
    const failure = await versionFailure(this.#context, view, signal);
    if (failure) {
      this.#giveUp(desired, failure);
      return false;
    }
    return plan.operations.length === 0 || !(await this.#execute(plan, desired, signal));
  }

  #resolve(): void {
    this.#resolved = resolveApp(this.#context.store, this.#resource, this.#memory);
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
    const { aside, runtime } = this.#context;
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
    const spec = this.#resolved?.spec ?? this.#resource.spec;
    this.#context.store.revisions.ensure({
      app: desired.name,
      generation: desired.generation,
      specHash: revisionHash(spec),
      spec,
      image: desired.image,
      imageId: null,
    });
  }

  /** The engine is only asked where an old version would be stopped for the new one: a creation tells by itself. */
  async #lookForImage(desired: DesiredApp, signal: AbortSignal): Promise<void> {
    const { images } = this.#context;
    const own = this.#containers.filter((container) => hashOf(container) === desired.hash);
    if (own.length >= desired.containers.length || !desired.app.running) return;
    if (notePulled(this.#context, desired)) this.#image = "present";
    const version = `${desired.name} ${desired.hash}`;
    if (desired.app.pullPolicy === "Always" && own.length === 0 && !images.isRefreshed(version)) {
      this.#image = "absent";
    } else if (this.#containers.length > own.length) {
      this.#image = await images.ask(desired.image, signal);
    }
  }

  #makePlan(desired: DesiredApp): Plan {
    const { stable, restarts, drifts } = this.#memory;
    return planApp(desired, {
      nowMs: this.#context.clock.now(),
      containers: this.#containers,
      health: this.#health,
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
    for (const operation of plan.operations) {
      if (this.#isOvertaken()) return false;
      if (operation.type === "pullImage") {
        if (this.#pull(operation.image, desired)) return true;
        continue;
      }
      this.#noteBefore(operation, desired);
      try {
        await this.#context.executor.execute(operation, desired.name, created, signal);
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
    }
    return hasActed;
  }

  /** True where the plan is to be made anew: the image is there, or the version was given up. Throws to back off. */
  #pull(image: string, desired: DesiredApp): boolean {
    // Waiting for a registry is not the version's fault: the deadline does not run meanwhile.
    const steps = this.#memory.attempt?.steps ?? 0;
    this.#memory = remember.noteProgress(this.#memory, this.#context.clock.now(), steps, true);
    const step = pullStep(this.#context, image, desired);
    if (step.type === "waiting") this.#progress = step.progress;
    else if (step.type === "done") this.#image = "present";
    else this.#giveUp(desired, step.failure);
    return step.type !== "waiting";
  }

  /** A restart is written down before it happens, so that a crash of Berth makes none of them free. */
  #noteBefore(operation: Operation, desired: DesiredApp): void {
    if (operation.type !== "startContainer" || operation.restart === null) return;
    const { clock } = this.#context;
    this.#memory = remember.noteRestart(this.#memory, desired, operation.restart, clock.now());
    this.#say("Warning", "Restarting", `${operation.name}: ${operation.cause}`);
    this.writeStatus({ progress: { reason: "Restarting", message: operation.cause } });
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

  /** Notes since when the version is Ready; after SOAK_MS without a break it is one to come back to. */
  #noteReady(): void {
    const { store, clock } = this.#context;
    const desired = this.#resolved?.desired;
    const { attempt } = this.#memory;
    if (!desired || attempt?.hash !== desired.hash || this.#memory.stalled) return;
    if (!isComplete(desired, this.#containers, this.#health)) {
      this.#memory = remember.noteReadySince(this.#memory, null);
      return;
    }
    const readySince = attempt.readySince ?? clock.now();
    const revision = this.#revision();
    if (attempt.readySince === null) {
      this.#memory = remember.noteReadySince(this.#memory, readySince);
      const number = revision?.number ?? "?";
      const what = this.#memory.quarantine
        ? `revision ${number}, which is held since generation ${this.#memory.quarantine.generation} failed,`
        : `generation ${desired.generation}, revision ${number},`;
      this.#say("Normal", "Ready", `${what} is running and healthy`);
    }
    if (clock.now() - readySince < remember.SOAK_MS || remember.isStable(this.#memory, desired))
      return;
    if (revision && revision.state !== "stable")
      store.revisions.mark(desired.name, revision.number, "stable", null);
    this.#memory = {
      ...this.#memory,
      stable: { hash: desired.hash, replicas: desired.containers.length },
      good: revision?.number ?? this.#memory.good,
    };
  }

  #masked({ reason, message }: Reason): Reason {
    return { reason, message: this.#mask(message) };
  }

  #say(type: "Normal" | "Warning", reason: string, message: string): void {
    const { name } = this.#resource.metadata;
    this.#context.store.events.record({ kind: "App", name, type, reason, message });
  }

  /** The revision of the spec that is being worked towards. */
  #revision(): Revision | undefined {
    const hash = revisionHash(this.#resolved?.spec ?? this.#resource.spec);
    return this.#context.store.revisions
      .list(this.#resource.metadata.name)
      .find((revision) => revision.specHash === hash);
  }

  #revisions(): AppStatus["revisions"] {
    const { store } = this.#context;
    const { name } = this.#resource.metadata;
    const all = store.revisions.list(name);
    const attempted = revisionHash(this.#resource.spec);
    return {
      attempted: all.find((revision) => revision.specHash === attempted)?.number ?? null,
      applied: this.#containers.length > 0 ? (this.#revision()?.number ?? null) : null,
      stable: lastGood(store, name, this.#memory)?.number ?? null,
    };
  }

  #result(isFinished: boolean): ReconcileResult {
    const desired = this.#resolved?.desired;
    if (!desired || this.#memory.stalled) return { settled: true, requeueAfterMs: null };
    const now = this.#context.clock.now();
    const isDone = isComplete(desired, this.#containers, this.#health);
    const waits: number[] = isFinished ? [] : [now + UNFINISHED_RETRY_MS];
    if (this.#plan?.restartAtMs) waits.push(this.#plan.restartAtMs);
    if (this.#containers.some(({ state }) => state === "removing" || state === "restarting"))
      waits.push(now + 500);
    const { attempt } = this.#memory;
    if (
      isDone &&
      attempt &&
      attempt.readySince !== null &&
      !remember.isStable(this.#memory, desired)
    ) {
      waits.push(attempt.readySince + remember.SOAK_MS);
    }
    const deadline = isDone ? null : remember.deadlineMs(this.#memory, desired);
    if (deadline !== null) waits.push(deadline + 1);
    // Progress of a pull is shown about once a second.
    if (this.#progress?.reason === "PullingImage") waits.push(now + 1_000);
    const settled = isDone || !desired.app.running || desired.app.suspend;
    return {
      settled,
      requeueAfterMs: waits.length === 0 ? null : Math.max(1, Math.min(...waits) - now),
    };
  }
}
