import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/logger.ts";
import type { TaskGroup } from "../../base/task-group.ts";
import { findCondition } from "../../resources/app-status.ts";
import type { Store, StoreChange } from "../../store/store.ts";
import type { AppBuilds } from "../builds/port.ts";
import type { Ingress } from "../ingress/port.ts";
import type { WriterLease } from "../lease/port.ts";
import type { LogArchive } from "../logs/log-archive.ts";
import type { ControllerMetrics } from "../metrics/controller-metrics.ts";
import type { ContainerListenerStatus } from "../models/container-listener.ts";
import type { PlanReport } from "../port.ts";
import { ReconcileLoop } from "../reconcile-loop.ts";
import type { ContainerRuntime } from "../runtime/port.ts";
import { AppReconciler } from "./app-reconciler.ts";
import { AppReferences } from "./app-references.ts";
import { BackgroundStops } from "./background-stops.ts";
import type { DryRunOptions } from "./dry-run.ts";
import { EngineMonitor } from "./engine-monitor.ts";
import { HealthMonitor } from "./health-monitor.ts";
import { ImagePuller } from "./image-puller.ts";
import { explainPendingModel } from "./model-inputs.ts";
import { RetryTimes } from "./retry-times.ts";

/**
 * The number of Apps that are reconciled at once. A higher number hardly helps, because the engine creates and starts
 * only a few containers concurrently.
 */
const WORKERS = 8;

export interface AppControllerOptions {
  readonly store: Store;
  /** The container engine. Writing to it requires the lease; see withLease. */
  readonly runtime: ContainerRuntime;
  readonly lease: WriterLease;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly tasks: TaskGroup;
  readonly archive: LogArchive;
  readonly builds: AppBuilds;
  readonly ingress: Ingress;
  readonly baseDomain: string;
  /** Returns when the machine of the engine was started, in epoch milliseconds; undefined if that is unknown. */
  readonly bootedAtMs?: (() => number | undefined) | undefined;
  /**
   * The listener through which containers reach the models. If it is undefined, containers get the address of the
   * default port, and Berth assumes that a listener is there.
   */
  readonly containerListener?: ContainerListenerStatus;
  /** The IPv4 range from which the networks of stacks get their subnets; default: NETWORK_POOL. */
  readonly networkPool?: string;
  /**
   * The data directory, below which Berth writes the files and makes the folders of Apps. Without it, or with an engine
   * elsewhere, Apps have neither.
   */
  readonly dataDir?: string;
  /** Deletes a folder with all that is in it, without following links; does nothing if it is missing. */
  readonly deleteFolder: (path: string) => Promise<void>;
  readonly metrics: ControllerMetrics;
  readonly random: () => number;
  readonly workers?: number;
}

/**
 * Queues an App for a reconcile when the App, a resource that it refers to, a container, the image or the health
 * changes.
 */
export class AppController {
  readonly engine: EngineMonitor;
  readonly #store: Store;
  readonly #tasks: TaskGroup;
  readonly #lease: WriterLease;
  #unwatchLease: () => void = () => {};
  readonly #loop: ReconcileLoop;
  readonly #reconciler: AppReconciler;
  readonly #references = new AppReferences();
  readonly #retries: RetryTimes;
  readonly #lastReadyConditions = new Map<string, string>();
  /** For each Model, the reason why its Apps were waiting when they were last queued. */
  readonly #lastModelReasons = new Map<string, string>();

  constructor(options: AppControllerOptions) {
    const { store, runtime, clock, logger, tasks, random } = options;
    this.#store = store;
    this.#tasks = tasks;
    this.#lease = options.lease;
    this.#retries = new RetryTimes(clock, random);
    const wakeByEvent = (app: string) => this.#loop.add(app, "event");
    const wakeByHint = (app: string) => this.enqueueHint(app);
    this.#loop = new ReconcileLoop({
      ...options,
      kind: "App",
      name: "app",
      workers: options.workers ?? WORKERS,
      reconcile: (name, signal, retryAtMs) => this.#reconciler.reconcile(name, signal, retryAtMs),
    });
    this.#reconciler = new AppReconciler({
      ...options,
      dataDir: runtime.location === "this-machine" ? options.dataDir : undefined,
      health: new HealthMonitor({ runtime, clock, tasks, onChange: wakeByHint }),
      puller: new ImagePuller({ runtime, clock, tasks, onSettled: wakeByEvent }),
      stops: new BackgroundStops({ ...options, onEnded: wakeByHint }),
      withReplacementWorker: (call) => this.#loop.withReplacementWorker(call),
      retries: this.#retries,
      takeHints: (app) => this.#loop.takeHints(app),
      onObserved: (app, containers) => this.engine.recordObservation(app, containers),
    });
    this.engine = new EngineMonitor({
      lease: options.lease,
      runtime,
      clock,
      logger,
      instance: store.instanceId,
      onContainer: wakeByHint,
      onConnectionChange: (connected) => this.#onConnection(connected),
      onSweep: (apps) => {
        for (const app of apps) this.#loop.add(app, "resync");
      },
      listApps: () => store.list("App").map((app) => app.metadata.name),
    });
  }

  /** Queues every App for its first reconcile before it returns. */
  start(): void {
    for (const app of this.#store.list("App")) {
      this.#references.update(app);
      this.#loop.add(app.metadata.name, "spec");
    }
    this.#unwatchLease = this.#lease.watch(() =>
      this.#reconcileAll(this.#lease.otherWriter === null),
    );
    this.#loop.start();
    this.#tasks.run("engine monitor", (signal) => this.engine.run(signal));
  }

  close(): void {
    this.#unwatchLease();
    this.#loop.close();
  }

  get isIdle(): boolean {
    return this.#loop.isIdle;
  }

  /** Queues an App after a change of its build, its source or one of its models. */
  enqueue(app: string): void {
    this.#loop.add(app, "event");
  }

  /**
   * Queues an App after a change of its containers, their health, the stops in progress, or the state of the ingress. A
   * reconcile run in progress reads these states again, and may then handle the change without another run.
   */
  enqueueHint(app: string): void {
    this.#loop.addHint(app);
  }

  /** Records that the engine does not hold this image any more. */
  handleImageRemoved(reference: string): void {
    this.#reconciler.handleImageRemoved(reference);
  }

  /** Queues an App before all others and resets its back-off. */
  wake(name: string): void {
    this.#retries.reset(name);
    this.#loop.resetBackoffAndAdd(name, "user");
  }

  /** Queues all Apps and resets their back-offs. */
  wakeAll(): void {
    this.#wakeAll("event");
  }

  /**
   * Returns what the next reconcile would do to an App, without doing it. Throws NotFoundError, or the error of the
   * engine.
   */
  plan(options: DryRunOptions, signal: AbortSignal): Promise<PlanReport> {
    return this.#reconciler.plan(options, signal);
  }

  onChange(change: StoreChange): void {
    if (change.kind === "Secret") this.#onSecret(change);
    else if (change.kind === "Model") this.#onModel(change);
    else if (change.kind === "App") this.#onApp(change);
  }

  #onSecret({ type, name }: StoreChange): void {
    if (type === "status" || type === "event") return;
    // In addition to the Apps that use the Secret, every App with a stalled pull is queued, because its pull may need
    // registry credentials from the changed Secret.
    for (const app of [...this.#references.usersOfSecret(name), ...this.#stalledApps()]) {
      this.#retries.reset(app);
      this.#loop.add(app, "spec");
    }
  }

  #onApp({ type, name }: StoreChange): void {
    if (type === "added" || type === "modified") this.#onSpec(name);
    else if (type === "status") this.#onStatus(name);
    else if (type === "deleted") {
      this.#references.remove(name);
      this.#retries.reset(name);
      this.#lastReadyConditions.delete(name);
      this.#loop.add(name, "spec");
      this.#wakeDependents(name);
    }
  }

  #onSpec(name: string): void {
    const app = this.#store.get("App", name);
    if (app) this.#references.update(app);
    this.#retries.reset(name);
    this.#loop.resetBackoffAndAdd(name, "spec");
    if (!app?.status) this.#wakeDependents(name);
  }

  /** Queues the Apps that depend on an App when the Ready condition of that App changes. */
  #onStatus(name: string): void {
    if (this.#references.dependentsOf(name).length === 0) return;
    const app = this.#store.get("App", name);
    const ready = findCondition(app?.status?.conditions ?? [], "Ready");
    const now = `${ready?.status} ${ready?.message}`;
    if (this.#lastReadyConditions.get(name) === now) return;
    this.#lastReadyConditions.set(name, now);
    this.#wakeDependents(name);
  }

  #wakeDependents(name: string): void {
    for (const dependent of this.#references.dependentsOf(name)) this.#loop.add(dependent, "event");
  }

  /**
   * Queues the Apps that use a Model when the Model begins or stops answering, and when the reason why it does not
   * answer changes.
   */
  #onModel({ name }: StoreChange): void {
    const apps = this.#references.usersOfModel(name);
    if (apps.length === 0) return;
    const now = explainPendingModel(name, this.#store.get("Model", name))?.message ?? "";
    if (this.#lastModelReasons.get(name) === now) return;
    this.#lastModelReasons.set(name, now);
    for (const app of apps) this.#loop.add(app, "event");
  }

  #stalledApps(): readonly string[] {
    return this.#store
      .list("App")
      .filter((app) => app.status?.memory.stalled || app.status?.memory.quarantine)
      .map((app) => app.metadata.name);
  }

  #onConnection(connected: boolean): void {
    if (!connected) this.#reconciler.markEngineLost();
    this.#reconcileAll(connected);
  }

  /**
   * Queues all Apps for another observation when the connection to the engine, or the permission to write to the
   * engine, was lost or has come back.
   */
  #reconcileAll(connected: boolean): void {
    this.#reconciler.resetEngineState();
    this.#wakeAll(connected ? "event" : "resync");
  }

  #wakeAll(priority: "event" | "resync"): void {
    for (const { metadata } of this.#store.list("App")) {
      this.#retries.reset(metadata.name);
      this.#loop.resetBackoffAndAdd(metadata.name, priority);
    }
  }
}
