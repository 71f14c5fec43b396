import type { Clock } from "../../base/clock.ts";
import { BerthError, isAbortError } from "../../base/errors.ts";
import type { Logger } from "../../base/logger.ts";
import type { TaskGroup } from "../../base/task-group.ts";
import { formatBytes } from "../../base/units.ts";
import type { Store, StoreChange } from "../../store/store.ts";
import type { ControllerMetrics } from "../metrics/controller-metrics.ts";
import type { ModelProgress } from "../port.ts";
import { ReconcileLoop, type ReconcileResult } from "../reconcile-loop.ts";
import type {
  AssistantControl,
  AssistantDaemon,
  AssistantModel,
  AssistantReport,
} from "./assistant/port.ts";
import { AssistantWatch } from "./assistant-watch.ts";
import type { ModelFiles } from "./files/port.ts";
import type { ModelSources } from "./hub/port.ts";
import type { ModelContext } from "./model-context.ts";
import { cleanUpOrphan, deleteModel, findKeysInUse, findOrphans } from "./model-deletion.ts";
import { ModelJobs } from "./model-jobs.ts";
import type { ModelMetrics } from "./model-metrics.ts";
import { ModelRun } from "./model-run.ts";

/**
 * The number of Models that are reconciled concurrently. A reconcile takes milliseconds, because all slow work is done
 * in jobs.
 */
const WORKERS = 4;
/** Resync interval in milliseconds, which makes up for missed events. */
const RESYNC_MS = 60_000;

export interface ModelControllerOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly tasks: TaskGroup;
  readonly random: () => number;
  readonly sources: ModelSources;
  readonly files: ModelFiles;
  readonly assistant: AssistantControl;
  readonly daemon: AssistantDaemon;
  readonly metrics: ModelMetrics;
  readonly loopMetrics: ControllerMetrics;
}

/**
 * Wakes the reconciler for a Model when one of these changes: the Model, its credential, its job, the assistant, or
 * the memory of another model.
 */
export class ModelController {
  readonly #options: ModelControllerOptions;
  readonly #loop: ReconcileLoop;
  readonly #jobs: ModelJobs;
  readonly #watch: AssistantWatch;
  readonly #context: ModelContext;
  /** For each Model, the facts about it on which other Models depend, as a text that is compared to detect a change. */
  readonly #lastSeen = new Map<string, string>();
  #isCollecting = false;

  constructor(options: ModelControllerOptions) {
    this.#options = options;
    const { store, clock, logger, tasks, random, loopMetrics } = options;
    this.#loop = new ReconcileLoop({
      kind: "Model",
      name: "model",
      workers: WORKERS,
      clock,
      logger,
      tasks,
      random,
      metrics: loopMetrics,
      reconcile: (name, signal) => this.#reconcile(name, signal),
    });
    const wakeByEvent = (model: string) => this.#loop.add(model, "event");
    this.#jobs = new ModelJobs({ clock, tasks, onChanged: wakeByEvent });
    this.#watch = new AssistantWatch({
      assistant: options.assistant,
      clock,
      onChange: () => this.#wakeAll("event"),
      isNeeded: () => store.list("Model").length > 0,
    });
    this.#context = {
      ...options,
      store,
      clock,
      logger,
      watch: this.#watch,
      jobs: this.#jobs,
      onFilesUnused: () => this.#collect(),
    };
  }

  start(): void {
    const { clock, tasks } = this.#options;
    this.#wakeAll("spec");
    this.#loop.start();
    tasks.run("watch the assistant", (signal) => this.#watch.run(signal));
    const resync = () => {
      this.#wakeAll("resync");
      if (!tasks.signal.aborted) clock.setTimer(RESYNC_MS, resync);
    };
    clock.setTimer(RESYNC_MS, resync);
    this.#collect();
  }

  close(): void {
    this.#loop.close();
  }

  get idle(): boolean {
    return this.#loop.isIdle;
  }

  wake(name: string): void {
    this.#loop.resetBackoffAndAdd(name, "user");
  }

  /** Queues all Models and resets their back-offs. */
  wakeAll(): void {
    for (const { metadata } of this.#options.store.list("Model"))
      this.#loop.resetBackoffAndAdd(metadata.name, "event");
  }

  /** Called when the assistant has started or ended, or is about to be restarted. */
  onAssistantChanged(): void {
    this.#wakeAll("event");
  }

  onChange(change: StoreChange): void {
    if (change.type === "event") return;
    if (change.kind === "Secret" && change.type !== "status") {
      for (const { metadata, spec } of this.#options.store.list("Model"))
        if (spec.credential === change.name) this.#loop.resetBackoffAndAdd(metadata.name, "spec");
    }
    if (change.kind !== "Model") return;
    if (change.type !== "status") this.#loop.resetBackoffAndAdd(change.name, "spec");
    this.#wakeOthers(change.name);
  }

  get context(): ModelContext {
    return this.#context;
  }

  get report(): AssistantReport {
    return this.#options.daemon.report();
  }

  /** The assistant's models that are not Models of the store. */
  get otherModels(): readonly AssistantModel[] {
    const { last } = this.#watch;
    if (!last.reachable) return [];
    const names = new Set(this.#options.store.list("Model").map(({ metadata }) => metadata.name));
    return last.state.models.filter(({ id }) => !names.has(id));
  }

  /** Returns the progress of the download or verification. */
  getProgress(name: string): ModelProgress | undefined {
    const job = this.#jobs.current(name);
    if (!job || job.state.type === "done" || job.state.type === "failed") return undefined;
    const { step, state } = job;
    if (step !== "resolve" && step !== "download" && step !== "verify") return undefined;
    const known = this.#options.store.get("Model", name)?.status;
    const nothing = {
      doneBytes: known?.downloadedBytes ?? 0,
      totalBytes: known?.sizeBytes ?? null,
      bytesPerSecond: null,
    };
    if (state.type === "waiting") return { step: "waiting", ...nothing };
    if (step === "resolve") return { step: "resolving", ...nothing };
    if (!state.progress)
      return { step: step === "verify" ? "verifying" : "downloading", ...nothing };
    return { ...state.progress, bytesPerSecond: state.bytesPerSecond };
  }

  async #reconcile(name: string, signal: AbortSignal): Promise<ReconcileResult> {
    const { store, logger } = this.#options;
    const resource = store.get("Model", name);
    if (!resource) {
      this.#lastSeen.delete(name);
      return cleanUpOrphan(this.#context, name, signal);
    }
    if (resource.metadata.deletionTimestamp !== null)
      return deleteModel(this.#context, resource, signal);
    try {
      return await new ModelRun(this.#context, resource).reconcile(signal);
    } catch (error) {
      if (!(error instanceof BerthError) && !isAbortError(error))
        logger.error({ kind: "Model", name, err: error }, "reconcile failed unexpectedly");
      throw error;
    }
  }

  #wakeAll(priority: "spec" | "event" | "resync"): void {
    for (const { metadata } of this.#options.store.list("Model"))
      this.#loop.add(metadata.name, priority);
    for (const name of findOrphans(this.#context)) this.#loop.add(name, priority);
  }

  /** Queues the other Models, because they may wait for memory that this Model uses or releases. */
  #wakeOthers(name: string): void {
    const { store } = this.#options;
    const resource = store.get("Model", name);
    const now = JSON.stringify([
      resource?.status?.phase,
      resource?.status?.loaded?.memoryBytes,
      resource?.status?.facts?.memoryBytes,
      resource?.spec.running,
      resource?.metadata.annotations,
    ]);
    if (this.#lastSeen.get(name) === now) return;
    this.#lastSeen.set(name, now);
    for (const { metadata, spec } of store.list("Model"))
      if (metadata.name !== name && spec.running === true) this.#loop.add(metadata.name, "event");
  }

  /** Removes unused files in the background, one collection at a time. */
  #collect(): void {
    const { tasks, files, logger } = this.#options;
    if (this.#isCollecting) return;
    this.#isCollecting = true;
    tasks.run("collect model files", async () => {
      try {
        const removed = await files.collect(findKeysInUse(this.#options));
        for (const { sha256, sizeBytes } of removed)
          logger.info(
            { sha256, size: formatBytes(sizeBytes) },
            "an unused model file was removed to free disk space",
          );
      } finally {
        this.#isCollecting = false;
      }
    });
  }
}
