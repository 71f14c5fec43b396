import { TaskGroup } from "../base/task-group.ts";
import type { Kind } from "../resources/kinds.ts";
import type { StoreChange } from "../store/store.ts";
import { AppController, type AppControllerOptions } from "./apps/app-controller.ts";
import { DataDisk } from "./data-disk.ts";
import { ModelController, type ModelControllerOptions } from "./models/model-controller.ts";

export interface ControllerManagerOptions extends Omit<AppControllerOptions, "tasks"> {
  readonly models: Pick<
    ModelControllerOptions,
    "sources" | "files" | "assistant" | "daemon" | "metrics"
  >;
}

/** Runs the controllers of all kinds, and passes them the changes of the store. */
export class ControllerManager implements AsyncDisposable {
  readonly apps: AppController;
  readonly models: ModelController;
  readonly disk: DataDisk;
  readonly #options: ControllerManagerOptions;
  readonly #tasks: TaskGroup;
  #unwatch: () => void = () => {};

  constructor(options: ControllerManagerOptions) {
    const { store, clock, logger, random } = options;
    this.#options = options;
    this.#tasks = new TaskGroup((error, name) =>
      logger.error({ task: name, err: error }, "a background task failed"),
    );
    this.apps = new AppController({ ...options, tasks: this.#tasks });
    this.models = new ModelController({
      ...options.models,
      store,
      clock,
      logger,
      random,
      tasks: this.#tasks,
      loopMetrics: options.metrics,
    });
    this.disk = new DataDisk({
      store,
      clock,
      logger,
      onRecovered: () => {
        this.apps.wakeAll();
        this.models.wakeAll();
      },
    });
  }

  /** Starts the controllers. Queues every resource for its first reconcile before it returns. */
  start(): void {
    this.#unwatch = this.#options.store.watch((change) => this.#onChange(change));
    this.#tasks.run("lease on the engine", (signal) => this.#options.lease.run(signal));
    this.#tasks.run("check of the data directory", (signal) => this.disk.run(signal));
    this.apps.start();
    this.models.start();
  }

  /** Queues a resource before all others and resets its back-off. */
  wake(kind: Kind, name: string): void {
    if (kind === "App") this.apps.wake(name);
    else if (kind === "Model") this.models.wake(name);
  }

  /** True if no resource is queued and no reconcile runs; for tests and the simulation. */
  get isIdle(): boolean {
    return this.apps.isIdle && this.models.idle;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#unwatch();
    this.apps.close();
    this.models.close();
    await this.#tasks[Symbol.asyncDispose]();
  }

  #onChange(change: StoreChange): void {
    this.apps.onChange(change);
    this.models.onChange(change);
  }
}
