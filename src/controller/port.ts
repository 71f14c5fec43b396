import type { AppSpec } from "../resources/app-spec.ts";
import type { Kind } from "../resources/kinds.ts";
import type { ModelSpec } from "../resources/model-spec.ts";
import type { Resource } from "../resources/resource.ts";
import type { FieldChange } from "../store/store.ts";
import type { CompanionReport } from "./daemons/companion/port.ts";
import type { EngineInfo } from "./engine-host.ts";
import type { EngineWriter } from "./lease/port.ts";
import type { AssistantModel, AssistantReport } from "./models/assistant/port.ts";

/**
 * The interface of the controllers for the API. Desired state is not written here but to the store, whose watch wakes
 * the reconcilers.
 */
export interface ControlPlane {
  /** Returns the last known state of the engine without asking it. */
  engine(): EngineState;
  /**
   * Returns what a reconcile of this App would do now. With `spec`, the plan is made for this spec instead of the
   * stored one. `annotations` are added to the stored ones. `plannedResources`, which the same dry run would write,
   * are treated as if they existed. The App need not exist if `spec` is given. Throws NotFoundError,
   * `engine_unreachable`.
   */
  planApp(
    name: string,
    spec: AppSpec | undefined,
    signal: AbortSignal,
    annotations?: Readonly<Record<string, string>>,
    plannedResources?: readonly PlannedResource[],
  ): Promise<PlanReport>;
  /**
   * Returns what a reconcile of the Model would do, as `planApp` does for an App. If the assistant does not answer,
   * uses its last known state. Throws NotFoundError.
   */
  planModel(
    name: string,
    spec: ModelSpec | undefined,
    signal: AbortSignal,
    plannedResources?: readonly PlannedResource[],
  ): Promise<ModelPlanReport>;
  /**
   * Checks that the source of a Model exists before the Model is created. Resolves also if the source is slow or cannot
   * be reached. Throws NotFoundError, `hub_denied`, `invalid_spec`.
   */
  checkSource(spec: ModelSpec, signal: AbortSignal): Promise<void>;
  /** Returns the progress of the download or the check of a Model; undefined if there is none in progress. */
  modelProgress(name: string): ModelProgress | undefined;
  /** Returns the state of the assistant's daemon. */
  assistant(): AssistantReport;
  /** Returns the state of the companion of the user who runs Berth. */
  companion(): CompanionReport;
  /**
   * Returns the assistant's models that belong to no Model resource, as last observed. They are the files in the
   * assistant's own folder of models.
   */
  otherModels(): readonly AssistantModel[];
  /** Returns why Berth cannot write to the data directory, and what to do about it; null if Berth can write. */
  diskProblem(): string | null;
  /**
   * Yields the log lines of all containers of an App, oldest first, including the kept lines of removed containers.
   * Throws NotFoundError.
   */
  appLogs(name: string, options: AppLogOptions, signal: AbortSignal): AsyncIterable<AppLogEntry>;
  /** Queues a resource before all others and resets its back-off. */
  wake(kind: Kind, name: string): void;
  /** Returns the state of the watched folder. */
  specs(): SpecsReport;
  /**
   * Fetches the repository that the watched folder follows. If the fetch fails, resolves to a report with the failure.
   * Throws ConflictError `wrong_state` if the folder follows no repository.
   */
  syncSpecs(signal: AbortSignal): Promise<SpecsGitReport>;
  /** Confirms the deletions that wait for the user. Returns the resources that will be pruned. */
  confirmPrune(): readonly { kind: Kind; name: string; file: string }[];
}

/**
 * A resource that a dry run would write. For a Secret, its values are included too, because a stored resource never
 * contains them.
 */
export interface PlannedResource {
  readonly resource: Resource;
  readonly values?: Readonly<Record<string, string>>;
}

export type EngineState =
  | {
      readonly connected: true;
      readonly info: EngineInfo;
      /** The other process that holds the lease on the engine, to which this process then writes nothing. */
      readonly otherWriter: EngineWriter | null;
    }
  | { readonly connected: false; readonly message: string };

export interface PlanReport {
  readonly app: string;
  readonly generation: number;
  readonly strategy: "recreate" | "rolling";
  readonly strategyReason: string;
  /** The planned operations in the order of execution; empty if there is nothing to do. */
  readonly operations: readonly {
    readonly operation: string;
    readonly target: string;
    readonly cause: string;
  }[];
  /** Differences between the stored spec and the planned one. */
  readonly changes: readonly FieldChange[];
  /** The reason why the plan cannot be executed, such as a dependency that is not Ready; null if it can be executed. */
  readonly blockedBy: string | null;
}

export interface ModelPlanReport {
  readonly model: string;
  readonly generation: number;
  /** The planned operations in the order of execution; empty if there is nothing to do. */
  readonly operations: PlanReport["operations"];
  readonly changes: readonly FieldChange[];
  /** The reason why the plan cannot be executed, such as memory that another model uses; null if it can be executed. */
  readonly blockedBy: string | null;
}

export interface ModelProgress {
  /**
   * The current step of obtaining the model. `resolving` means that the source is being queried, `waiting` that the
   * download is queued until other downloads have ended.
   */
  readonly step: "resolving" | "waiting" | "downloading" | "verifying";
  readonly doneBytes: number;
  /** The total size; null if the source does not report it. */
  readonly totalBytes: number | null;
  /** The transfer rate, averaged over the last seconds; null before it is known. */
  readonly bytesPerSecond: number | null;
}

export interface AppLogOptions {
  readonly tail: number;
  readonly follow: boolean;
  readonly sinceMs?: number;
}

export interface AppLogLine {
  readonly time: string;
  readonly stream: "stdout" | "stderr";
  readonly message: string;
  readonly container: string;
}

/** A line of a log, or the number of lines of a followed log that were skipped because the reader was too slow. */
export type AppLogEntry = AppLogLine | { readonly skipped: number; readonly container: string };

export interface SpecFileReport {
  /** The path of the file below the watched folder. */
  readonly file: string;
  readonly state: "applied" | "invalid" | "conflict";
  /** sha256 of the file's text. */
  readonly contentHash: string;
  readonly resources: readonly {
    readonly kind: Kind;
    readonly name: string;
    /**
     * Fields of the file that another manager now owns, because it wrote them with force, as JSON Pointers. "" means
     * that the whole resource was deleted with force: it is not created again until the file's text changes.
     */
    readonly yielded: readonly string[];
  }[];
  readonly errors: readonly {
    readonly line: number;
    readonly column: number;
    readonly message: string;
  }[];
  readonly time: string;
}

export interface SpecsReport {
  readonly folder: string;
  /**
   * The state of the watched folder: `watching`, or the reason why Berth applies and prunes nothing: `missing`,
   * `unreadable` or `empty`.
   */
  readonly state: "watching" | "missing" | "unreadable" | "empty" | "off";
  readonly message: string | null;
  readonly files: readonly SpecFileReport[];
  /** The repository whose files are mirrored into the folder; absent if the folder follows no repository. */
  readonly git?: SpecsGitReport;
  /** Prunes that wait for `berth prune --confirm`. */
  readonly pendingPrune: readonly {
    readonly kind: Kind;
    readonly name: string;
    readonly file: string;
  }[];
}

export interface SpecsGitReport {
  /** The URL of the repository without user and password. */
  readonly url: string;
  /** The branch, tag or commit; null for the repository's default branch. */
  readonly ref: string | null;
  /** The folder of the repository whose files are mirrored. */
  readonly path: string;
  /** The subfolder of the watched folder that contains the files of the repository. */
  readonly folder: string;
  /** The commit that the files come from; null before the first checkout. */
  readonly commit: string | null;
  readonly state: "following" | "failing";
  /** The reason why the last fetch of the repository failed. */
  readonly message: string | null;
  /** The time of the last request to the repository. */
  readonly checkedAt: string | null;
  /** The time when Berth last changed the mirrored files. */
  readonly appliedAt: string | null;
}
