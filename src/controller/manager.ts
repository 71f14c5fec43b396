import type { Clock } from "../base/clock.ts";
import { BerthError, isAbort, messageOf } from "../base/errors.ts";
import type { Logger } from "../base/logger.ts";
import { TaskGroup } from "../base/task-group.ts";
import type { Kind } from "../resources/kinds.ts";
import { findCondition } from "../resources/status.ts";
import type { Change, Store } from "../store/store.ts";
import { BackgroundStops } from "./apps/background-stops.ts";
import { HealthMonitor } from "./apps/health-monitor.ts";
import { ImagePuller } from "./apps/image-puller.ts";
import { AppReconciler } from "./apps/reconciler.ts";
import { backoffMs } from "./backoff.ts";
import type { AppBuilds } from "./build/port.ts";
import { EngineMonitor } from "./engine-monitor.ts";
import type { Ingress } from "./ingress/port.ts";
import type { LogArchive } from "./logs/archive.ts";
import type { ControllerMetrics } from "./metrics.ts";
import { References } from "./references.ts";
import type { ContainerRuntime } from "./runtime/port.ts";
import { WorkQueue } from "./workqueue.ts";

/** Apps reconciled at once; the engine creates and starts hardly more than this side by side. */
const WORKERS = 8;

export interface ManagerOptions {
  readonly store: Store;
  readonly runtime: ContainerRuntime;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly archive: LogArchive;
  readonly builds: AppBuilds;
  readonly ingress: Ingress;
  readonly baseDomain: string;
  readonly metrics: ControllerMetrics;
  /** 0 to 1; spreads back-offs. */
  readonly random: () => number;
  readonly workers?: number;
}

/** Turns changes of the store, of the engine and of health into keys, and keys into reconciles. */
export class Manager implements AsyncDisposable {
  readonly engine: EngineMonitor;
  readonly #options: ManagerOptions;
  readonly #queue: WorkQueue;
  readonly #tasks: TaskGroup;
  readonly #reconciler: AppReconciler;
  readonly #references = new References();
  readonly #failures = new Map<string, number>();
  readonly #readyApps = new Map<string, string>();
  /** Workers to let go: each stood in for a run that was waiting, and that has come back. */
  #surplusWorkers = 0;
  #unwatch: () => void = () => {};

  constructor(options: ManagerOptions) {
    const { store, runtime, clock, logger, archive, builds, ingress, baseDomain } = options;
    this.#options = options;
    this.#queue = new WorkQueue(clock);
    this.#tasks = new TaskGroup((error, name) =>
      logger.error({ task: name, err: error }, "a background task failed"),
    );
    const wakeByEvent = (app: string) => this.#queue.add(app, "event");
    const health = new HealthMonitor({ runtime, clock, tasks: this.#tasks, onChange: wakeByEvent });
    const puller = new ImagePuller({ runtime, clock, tasks: this.#tasks, onSettled: wakeByEvent });
    this.#reconciler = new AppReconciler({
      store,
      runtime,
      clock,
      logger,
      health,
      puller,
      archive,
      builds,
      ingress,
      baseDomain,
      stops: new BackgroundStops({ runtime, tasks: this.#tasks, logger, onEnded: wakeByEvent }),
      aside: (call) => this.#aside(call),
      onObserved: (app, containers) => this.engine.observed(app, containers),
    });
    this.engine = new EngineMonitor({
      runtime,
      clock,
      logger,
      instance: store.instanceId,
      onContainer: wakeByEvent,
      onConnection: (connected) => this.#onConnection(connected),
      onSweep: (apps) => this.#onSweep(apps),
      apps: () => store.list("App").map((app) => app.metadata.name),
    });
    const { queueAdds, queueDepth, queueSeconds } = options.metrics;
    const tellDepth = () => queueDepth.set({ name: "app" }, this.#queue.depth.waiting);
    this.#queue.onAdd = () => {
      queueAdds.inc({ name: "app" });
      tellDepth();
    };
    this.#queue.onTake = (_key, waitedMs) => {
      queueSeconds.observe({ name: "app" }, waitedMs / 1000);
      tellDepth();
    };
  }

  /** Begins to work. The first look at every App is queued before this returns. */
  start(): void {
    const { store } = this.#options;
    this.#unwatch = store.watch((change) => this.#onChange(change));
    for (const app of store.list("App")) {
      this.#references.update(app);
      this.#queue.add(app.metadata.name, "spec");
    }
    for (let worker = 0; worker < (this.#options.workers ?? WORKERS); worker += 1) {
      this.#tasks.run(`reconcile worker ${worker}`, (signal) => this.#work(signal));
    }
    this.#tasks.run("engine monitor", (signal) => this.engine.run(signal));
  }

  /** A build, a source or the ingress has something new to say about an App. */
  changed(app: string): void {
    this.#queue.add(app, "event");
  }

  /** The engine does not hold this image any more. */
  imageRemoved(reference: string): void {
    this.#reconciler.imageRemoved(reference);
  }

  /** Ahead of everything else, whatever the back-off says. */
  wake(kind: Kind, name: string): void {
    if (kind !== "App") return;
    this.#failures.delete(name);
    this.#queue.add(name, "user");
  }

  get reconciler(): AppReconciler {
    return this.#reconciler;
  }

  /** True when nothing waits and nothing runs: for tests and the simulation. */
  get idle(): boolean {
    const { waiting, processing } = this.#queue.depth;
    return waiting === 0 && processing === 0;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#unwatch();
    this.#queue.close();
    await this.#tasks[Symbol.asyncDispose]();
  }

  async #work(signal: AbortSignal): Promise<void> {
    for (let key = await this.#queue.take(); key !== undefined; key = await this.#queue.take()) {
      try {
        await this.#reconcile(key, signal);
      } finally {
        this.#queue.done(key);
      }
      if (signal.aborted) return;
      if (this.#surplusWorkers > 0) {
        this.#surplusWorkers -= 1;
        return;
      }
    }
  }

  /** Another worker stands in while a run only waits: ten apps that take ten minutes to stop hold nobody up. */
  async #aside<T>(call: () => Promise<T>): Promise<T> {
    this.#tasks.run("stand-in worker", (signal) => this.#work(signal));
    try {
      return await call();
    } finally {
      this.#surplusWorkers += 1;
    }
  }

  async #reconcile(name: string, signal: AbortSignal): Promise<void> {
    const { metrics, logger, random } = this.#options;
    const stopTimer = metrics.reconcileSeconds.startTimer({ controller: "app" });
    metrics.activeWorkers.inc({ controller: "app" });
    try {
      const { settled, requeueAfterMs } = await this.#reconciler.reconcile(name, signal);
      if (settled) this.#failures.delete(name);
      if (requeueAfterMs !== null) this.#queue.addAfter(name, requeueAfterMs, "event");
      metrics.reconcileTotal.inc({
        controller: "app",
        result: requeueAfterMs === null ? "success" : "requeue_after",
      });
    } catch (error) {
      if (isAbort(error) && signal.aborted) return;
      const failures = this.#failures.get(name) ?? 0;
      this.#failures.set(name, failures + 1);
      const delayMs = backoffMs(failures, random);
      metrics.reconcileTotal.inc({ controller: "app", result: "error" });
      metrics.queueRetries.inc({ name: "app" });
      const code = error instanceof BerthError ? error.code : "internal";
      logger.warn(
        { kind: "App", name, code, error: messageOf(error), retryInMs: delayMs },
        "reconcile failed, will retry",
      );
      this.#queue.addAfter(name, delayMs, "event");
    } finally {
      metrics.activeWorkers.dec({ controller: "app" });
      stopTimer();
    }
  }

  #onChange(change: Change): void {
    if (change.kind === "Secret" && change.type !== "status" && change.type !== "event") {
      for (const app of this.#references.usersOf(change.name)) this.#queue.add(app, "spec");
      // A registry's credentials may be what any stalled pull waits for.
      for (const app of this.#stalledApps()) this.#queue.add(app, "spec");
    }
    if (change.kind !== "App") return;
    if (change.type === "added" || change.type === "modified") this.#onSpec(change.name);
    else if (change.type === "status") this.#onStatus(change.name);
    else if (change.type === "deleted") {
      this.#references.remove(change.name);
      this.#readyApps.delete(change.name);
      this.#queue.add(change.name, "spec");
      this.#wakeDependents(change.name);
    }
  }

  #onSpec(name: string): void {
    const app = this.#options.store.get("App", name);
    if (app) this.#references.update(app);
    this.#failures.delete(name);
    this.#queue.add(name, "spec");
    if (!app?.status) this.#wakeDependents(name);
  }

  /** Dependents look again when an App's Ready condition turns. */
  #onStatus(name: string): void {
    const dependents = this.#references.dependentsOf(name);
    if (dependents.length === 0) return;
    const app = this.#options.store.get("App", name);
    const ready = findCondition(app?.status?.conditions ?? [], "Ready");
    const now = `${ready?.status} ${ready?.message}`;
    if (this.#readyApps.get(name) === now) return;
    this.#readyApps.set(name, now);
    this.#wakeDependents(name);
  }

  #wakeDependents(name: string): void {
    for (const dependent of this.#references.dependentsOf(name))
      this.#queue.add(dependent, "event");
  }

  #stalledApps(): readonly string[] {
    return this.#options.store
      .list("App")
      .filter((app) => app.status?.memory.stalled || app.status?.memory.quarantine)
      .map((app) => app.metadata.name);
  }

  #onConnection(connected: boolean): void {
    this.#reconciler.forgetEngine();
    for (const app of this.#options.store.list("App")) {
      this.#failures.delete(app.metadata.name);
      this.#queue.add(app.metadata.name, connected ? "event" : "resync");
    }
  }

  #onSweep(apps: readonly string[]): void {
    for (const app of apps) this.#queue.add(app, "resync");
  }
}
