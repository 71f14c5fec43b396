import { ConflictError, NotFoundError } from "../../src/base/errors.ts";
import type { CompanionReport } from "../../src/controller/daemons/companion/port.ts";
import type {
  AssistantModel,
  AssistantReport,
} from "../../src/controller/models/assistant/port.ts";
import type {
  AppLogEntry,
  AppLogOptions,
  ControlPlane,
  EngineState,
  ModelPlanReport,
  ModelProgress,
  PlannedResource,
  PlanReport,
  SpecsGitReport,
  SpecsReport,
} from "../../src/controller/port.ts";
import type { AppSpec } from "../../src/resources/app-spec.ts";
import type { Kind } from "../../src/resources/kinds.ts";
import type { ModelSpec } from "../../src/resources/model-spec.ts";
import type { Store } from "../../src/store/store.ts";

/** A ControlPlane whose reports, plans and errors are set by a test, and which records the calls it receives. */
export class FakeControlPlane implements ControlPlane {
  engineState: EngineState = {
    connected: true,
    info: {
      name: "fake",
      version: "1.0",
      apiVersion: "1.41",
      os: "linux",
      arch: "x64",
      cpus: 2,
      memoryBytes: 1,
    },
    otherWriter: null,
  };
  specsReport: SpecsReport = {
    folder: "specs",
    state: "watching",
    message: null,
    files: [],
    pendingPrune: [],
  };
  plan: Partial<PlanReport> = {};
  planError: Error | undefined;
  readonly plannedApps: { name: string; spec: AppSpec | undefined }[] = [];
  readonly woken: string[] = [];
  readonly logOptions: AppLogOptions[] = [];
  logs: (options: AppLogOptions, signal: AbortSignal) => AsyncIterable<AppLogEntry> = noLines;
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  diskProblemText: string | null = null;

  diskProblem(): string | null {
    return this.diskProblemText;
  }

  engine(): EngineState {
    return this.engineState;
  }

  /** The argument `alongside` of the last plan: the resources that the plan assumed to exist. */
  alongside: readonly PlannedResource[] = [];

  async planApp(
    name: string,
    spec: AppSpec | undefined,
    _signal: AbortSignal,
    _annotations?: Readonly<Record<string, string>>,
    alongside: readonly PlannedResource[] = [],
  ): Promise<PlanReport> {
    this.plannedApps.push({ name, spec });
    this.alongside = alongside;
    if (this.planError) throw this.planError;
    const app = this.#store.get("App", name);
    if (!app && !spec) throw new NotFoundError(`there is no app "${name}"`);
    return {
      app: name,
      generation: app?.metadata.generation ?? 1,
      strategy: "recreate",
      strategyReason: "there is no ingress",
      operations: [{ operation: "createContainer", target: `${name}-1`, cause: "missing" }],
      changes: [],
      blockedBy: null,
      ...this.plan,
    };
  }

  modelPlan: Partial<ModelPlanReport> = {};
  readonly plannedModels: { name: string; spec: ModelSpec | undefined }[] = [];

  /** The error that the check of a new Model's source throws; undefined if the source exists. */
  sourceError: Error | undefined;

  async checkSource(): Promise<void> {
    if (this.sourceError) throw this.sourceError;
  }

  async planModel(
    name: string,
    spec: ModelSpec | undefined,
    _signal: AbortSignal,
    alongside: readonly PlannedResource[] = [],
  ): Promise<ModelPlanReport> {
    this.plannedModels.push({ name, spec });
    this.alongside = alongside;
    if (this.planError) throw this.planError;
    const model = this.#store.get("Model", name);
    if (!model && !spec) throw new NotFoundError(`there is no model "${name}"`);
    return {
      model: name,
      generation: model?.metadata.generation ?? 1,
      operations: [{ operation: "download", target: name, cause: "not on disk" }],
      changes: [],
      blockedBy: null,
      ...this.modelPlan,
    };
  }

  /** The download progress of Models, by name. */
  readonly progress = new Map<string, ModelProgress>();

  modelProgress(name: string): ModelProgress | undefined {
    return this.progress.get(name);
  }

  assistantReport: AssistantReport = {
    state: "up",
    url: "http://127.0.0.1:7777",
    pid: 42,
    starts: 1,
    message: null,
  };

  assistant(): AssistantReport {
    return this.assistantReport;
  }

  companionReport: CompanionReport = {
    state: "no_bus",
    url: null,
    pid: null,
    starts: 0,
    message: "no session bus is in the environment",
  };

  companion(): CompanionReport {
    return this.companionReport;
  }

  /** The models in the assistant's own folder. */
  assistantModels: readonly AssistantModel[] = [];

  otherModels(): readonly AssistantModel[] {
    return this.assistantModels;
  }

  async *appLogs(
    name: string,
    options: AppLogOptions,
    signal: AbortSignal,
  ): AsyncGenerator<AppLogEntry> {
    this.logOptions.push(options);
    if (!this.#store.get("App", name)) throw new NotFoundError(`there is no app "${name}"`);
    yield* this.logs(options, signal);
  }

  wake(kind: Kind, name: string): void {
    this.woken.push(`${kind}/${name}`);
  }

  specs(): SpecsReport {
    return this.specsReport;
  }

  /** The report of a synchronisation with the specs repository; undefined if the specs follow no repository. */
  syncReport: SpecsGitReport | undefined;

  async syncSpecs(): Promise<SpecsGitReport> {
    if (this.syncReport) return this.syncReport;
    throw new ConflictError("wrong_state", "the specs follow no repository");
  }

  confirmPrune(): SpecsReport["pendingPrune"] {
    return this.specsReport.pendingPrune;
  }
}

// oxlint-disable-next-line require-yield -- no lines at all
async function* noLines(): AsyncGenerator<AppLogEntry> {}
