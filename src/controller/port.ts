import type { AppSpec } from "../resources/app-spec.ts";
import type { Kind } from "../resources/kinds.ts";
import type { ModelSpec } from "../resources/model-spec.ts";
import type { Resource } from "../resources/resource.ts";
import type { FieldChange } from "../store/store.ts";
import type { CompanionReport } from "./daemons/companion/port.ts";
import type { AssistantModel, AssistantReport } from "./models/assistant/port.ts";
import type { EngineInfo } from "./runtime/port.ts";

/**
 * What the API may ask of the controllers. Writes of desired state do not come through here: they
 * go to the store, whose watch wakes the reconcilers.
 */
export interface ControlPlane {
  /** What is known of the engine now, without asking it. */
  engine(): EngineState;
  /**
   * What a reconcile of this App would do, with `spec` in place of the stored one where given (a dry
   * run), or for an App that does not exist yet; with `annotations` on top of the stored ones.
   * `alongside` is taken to be there: what the same dry run would write. Throws NotFoundError, `engine_unreachable`.
   */
  planApp(
    name: string,
    spec: AppSpec | undefined,
    signal: AbortSignal,
    annotations?: Readonly<Record<string, string>>,
    plannedResources?: readonly PlannedResource[],
  ): Promise<PlanReport>;
  /** The same for a Model. Throws NotFoundError. Where the assistant is away, what it last said counts. */
  planModel(
    name: string,
    spec: ModelSpec | undefined,
    signal: AbortSignal,
    plannedResources?: readonly PlannedResource[],
  ): Promise<ModelPlanReport>;
  /**
   * Asks whether there is what a Model that is about to be made would be of. Throws NotFoundError, `hub_denied`,
   * `invalid_spec`. A source that is slow, or away, is no reason to refuse.
   */
  checkSource(spec: ModelSpec, signal: AbortSignal): Promise<void>;
  /** The download or the check of a Model that is under way; undefined where none is. */
  modelProgress(name: string): ModelProgress | undefined;
  /** The assistant's daemon. */
  assistant(): AssistantReport;
  /** The companion of the person who runs Berth. */
  companion(): CompanionReport;
  /** What the assistant knows beside the Models, as last seen: files in its own folder of models. */
  otherModels(): readonly AssistantModel[];
  /** Lines of an App over all its containers, kept ones included, oldest first. Throws NotFoundError. */
  appLogs(name: string, options: AppLogOptions, signal: AbortSignal): AsyncIterable<AppLogLine>;
  /** Looks at a resource now, ahead of everything else, whatever its back-off says. */
  wake(kind: Kind, name: string): void;
  /** The watched folder. */
  specs(): SpecsReport;
  /**
   * Looks at the repository that the watched folder follows, now. Resolves when that has ended, well or
   * badly, as the report says. Throws ConflictError `wrong_state` where none is followed.
   */
  syncSpecs(signal: AbortSignal): Promise<SpecsGitReport>;
  /** Lets the deletions that wait for a person go ahead. Returns what will be pruned. */
  confirmPrune(): readonly { kind: Kind; name: string; file: string }[];
}

/** What a dry run would write; for a Secret with its values, which a resource never holds. */
export interface PlannedResource {
  readonly resource: Resource;
  readonly values?: Readonly<Record<string, string>>;
}

export type EngineState =
  | { readonly connected: true; readonly info: EngineInfo }
  | { readonly connected: false; readonly message: string };

export interface PlanReport {
  readonly app: string;
  readonly generation: number;
  readonly strategy: "recreate" | "rolling";
  readonly strategyReason: string;
  /** In the order in which they would run. Empty: nothing to do. */
  readonly operations: readonly {
    readonly operation: string;
    readonly target: string;
    readonly cause: string;
  }[];
  /** Differences between the stored spec and the one asked about. */
  readonly changes: readonly FieldChange[];
  /** What holds the plan up, such as a dependency that is not Ready; null where nothing does. */
  readonly blockedBy: string | null;
}

export interface ModelPlanReport {
  readonly model: string;
  readonly generation: number;
  /** In the order in which they would run. Empty: nothing to do. */
  readonly operations: PlanReport["operations"];
  readonly changes: readonly FieldChange[];
  /** What holds the plan up, such as memory that another model has; null where nothing does. */
  readonly blockedBy: string | null;
}

export interface ModelProgress {
  /** resolving: the source is asked. waiting: other downloads come first. */
  readonly step: "resolving" | "waiting" | "downloading" | "verifying";
  readonly doneBytes: number;
  /** Null where the source does not tell. */
  readonly totalBytes: number | null;
  /** Over the last seconds; null before there is anything to tell. */
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

export interface SpecFileReport {
  /** Below the watched folder. */
  readonly file: string;
  readonly state: "applied" | "invalid" | "conflict";
  /** sha256 of the file's text. */
  readonly contentHash: string;
  readonly resources: readonly {
    readonly kind: Kind;
    readonly name: string;
    /**
     * Fields that stay with whoever took them with force, as JSON Pointers. "" is the whole resource:
     * somebody deleted it with force, and it stays away until the file's text changes.
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
  /** watching, or why pruning and applying are held: missing, unreadable, empty. */
  readonly state: "watching" | "missing" | "unreadable" | "empty" | "off";
  readonly message: string | null;
  readonly files: readonly SpecFileReport[];
  /** The repository that a part of the folder comes from; absent where none is followed. */
  readonly git?: SpecsGitReport;
  /** Prunes that wait for `berth prune --confirm`. */
  readonly pendingPrune: readonly {
    readonly kind: Kind;
    readonly name: string;
    readonly file: string;
  }[];
}

export interface SpecsGitReport {
  /** Without user and password. */
  readonly url: string;
  /** Null: the repository's default branch. */
  readonly ref: string | null;
  /** The folder of the repository. */
  readonly path: string;
  /** The folder below the watched one that its files stand in. */
  readonly folder: string;
  /** Whose files stand there; null: none have yet. */
  readonly commit: string | null;
  readonly state: "following" | "failing";
  /** Why it is failing. */
  readonly message: string | null;
  /** When the repository was last asked, and when files were last changed. */
  readonly checkedAt: string | null;
  readonly appliedAt: string | null;
}
