import type { Clock } from "../base/clock.ts";
import { ConflictError } from "../base/errors.ts";
import type { ControllerManager } from "../controller/controller-manager.ts";
import type { CompanionDaemon, CompanionReport } from "../controller/daemons/companion/port.ts";
import { readAppLogs } from "../controller/logs/app-logs.ts";
import type { LogArchive } from "../controller/logs/log-archive.ts";
import type { AssistantModel, AssistantReport } from "../controller/models/assistant/port.ts";
import { checkModelSource } from "../controller/models/check-model-source.ts";
import type { ModelController } from "../controller/models/model-controller.ts";
import { reportModelPlan } from "../controller/models/model-plan-report.ts";
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
} from "../controller/port.ts";
import type { ContainerRuntime } from "../controller/runtime/port.ts";
import type { AppSpec } from "../resources/app-spec.ts";
import type { Kind } from "../resources/kinds.ts";
import type { ModelSpec } from "../resources/model-spec.ts";
import type { Store } from "../store/store.ts";

/** The watched folder, as the API sees it. */
export interface SpecsControl {
  report(): SpecsReport;
  confirmPrune(): readonly { kind: Kind; name: string; file: string }[];
  /** Synchronises the folder with its git repository; absent if the folder follows no repository. */
  sync?(signal: AbortSignal): Promise<SpecsGitReport>;
}

export interface ControlPlaneParts {
  readonly store: Store;
  readonly runtime: ContainerRuntime;
  readonly archive: LogArchive;
  readonly clock: Clock;
  readonly manager: ControllerManager;
  readonly specs: SpecsControl;
  readonly companion: CompanionDaemon;
}

/** The control plane in the process of the API. It reads the state of the reconcilers directly. */
export class LocalControlPlane implements ControlPlane {
  readonly #parts: ControlPlaneParts;
  readonly #models: ModelController;

  constructor(parts: ControlPlaneParts) {
    this.#parts = parts;
    this.#models = parts.manager.models;
  }

  engine(): EngineState {
    return this.#parts.manager.apps.engine.state;
  }

  diskProblem(): string | null {
    return this.#parts.manager.disk.problem;
  }

  planApp(
    name: string,
    spec: AppSpec | undefined,
    signal: AbortSignal,
    annotations: Readonly<Record<string, string>> = {},
    plannedResources: readonly PlannedResource[] = [],
  ): Promise<PlanReport> {
    return this.#parts.manager.apps.plan({ name, spec, annotations, plannedResources }, signal);
  }

  planModel(
    name: string,
    spec: ModelSpec | undefined,
    signal: AbortSignal,
    plannedResources?: readonly PlannedResource[],
  ): Promise<ModelPlanReport> {
    return reportModelPlan(this.#models.context, name, spec, signal, plannedResources);
  }

  checkSource(spec: ModelSpec, signal: AbortSignal): Promise<void> {
    return checkModelSource(this.#models.context, spec, signal);
  }

  modelProgress(name: string): ModelProgress | undefined {
    return this.#models.getProgress(name);
  }

  assistant(): AssistantReport {
    return this.#models.report;
  }

  companion(): CompanionReport {
    return this.#parts.companion.report();
  }

  otherModels(): readonly AssistantModel[] {
    return this.#models.otherModels;
  }

  appLogs(name: string, options: AppLogOptions, signal: AbortSignal): AsyncIterable<AppLogEntry> {
    return readAppLogs(this.#parts, name, options, signal);
  }

  wake(kind: Kind, name: string): void {
    this.#parts.manager.wake(kind, name);
  }

  specs(): SpecsReport {
    return this.#parts.specs.report();
  }

  async syncSpecs(signal: AbortSignal): Promise<SpecsGitReport> {
    if (this.#parts.specs.sync) return this.#parts.specs.sync(signal);
    throw new ConflictError("wrong_state", "the specs follow no repository", {
      hint: "start Berth with --specs-git-url URL",
    });
  }

  confirmPrune(): readonly { kind: Kind; name: string; file: string }[] {
    return this.#parts.specs.confirmPrune();
  }
}
