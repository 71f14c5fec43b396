import { canonicalJson } from "../base/canonical-json.ts";
import { ConflictError, NotFoundError } from "../base/errors.ts";
import { inputsDigest } from "../controller/apps/app-inputs.ts";
import { overlayPlannedResources } from "../controller/apps/dry-run-store.ts";
import { planApp } from "../controller/apps/plan/plan-app.ts";
import type { Operation, Plan } from "../controller/apps/plan/plan-types.ts";
import { applyInputs } from "../controller/apps/reconcile-state.ts";
import { resolveApp } from "../controller/apps/resolve-app.ts";
import { chooseStrategy } from "../controller/apps/rollout-strategy.ts";
import type { AppBuilds, SourceState } from "../controller/builds/port.ts";
import type { ControllerManager } from "../controller/controller-manager.ts";
import type { CompanionDaemon, CompanionReport } from "../controller/daemons/companion/port.ts";
import { diffSpecs } from "../controller/diff-specs.ts";
import { buildDryRunResource } from "../controller/dry-run-resource.ts";
import type { Ingress } from "../controller/ingress/port.ts";
import { readAppLogs } from "../controller/logs/app-logs.ts";
import type { LogArchive } from "../controller/logs/log-archive.ts";
import type { AssistantModel, AssistantReport } from "../controller/models/assistant/port.ts";
import { checkModelSource } from "../controller/models/check-model-source.ts";
import type { ContainerListenerStatus } from "../controller/models/container-listener.ts";
import type { ModelController } from "../controller/models/model-controller.ts";
import { reportModelPlan } from "../controller/models/model-plan-report.ts";
import type {
  AppLogLine,
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
import type { ImageRuntime, WorkloadRuntime } from "../controller/runtime/port.ts";
import { resolveAppDefaults } from "../resources/app-defaults.ts";
import type { AppSpec } from "../resources/app-spec.ts";
import { emptyReconcileState, type ReconcileState } from "../resources/app-status.ts";
import type { Kind } from "../resources/kinds.ts";
import type { ModelSpec } from "../resources/model-spec.ts";
import { RETRIED_AT_ANNOTATION, type Resource } from "../resources/resource.ts";
import type { Store } from "../store/store.ts";

/** The watched folder's part of the answers; absent where no folder is watched. */
export interface SpecsControl {
  report(): SpecsReport;
  confirmPrune(): readonly { kind: Kind; name: string; file: string }[];
  /** Absent where no repository is followed. */
  sync?(signal: AbortSignal): Promise<SpecsGitReport>;
}

/** Answers the API's questions from the same parts that the reconcilers use. */
export class LocalControlPlane implements ControlPlane {
  readonly #store: Store;
  readonly #runtime: WorkloadRuntime & ImageRuntime;
  readonly #archive: LogArchive;
  readonly #manager: ControllerManager;
  readonly #models: ModelController;
  readonly #specs: SpecsControl;
  readonly #builds: Pick<AppBuilds, "source">;
  readonly #ingress: Ingress;
  readonly #containerListener: ContainerListenerStatus | undefined;
  readonly #companion: CompanionDaemon;
  readonly #now: () => number;

  constructor(options: {
    store: Store;
    runtime: WorkloadRuntime & ImageRuntime;
    archive: LogArchive;
    manager: ControllerManager;
    specs: SpecsControl;
    builds: Pick<AppBuilds, "source">;
    ingress: Ingress;
    containerListener?: ContainerListenerStatus;
    companion: CompanionDaemon;
    now: () => number;
  }) {
    this.#store = options.store;
    this.#runtime = options.runtime;
    this.#archive = options.archive;
    this.#manager = options.manager;
    this.#models = options.manager.models;
    this.#specs = options.specs;
    this.#builds = options.builds;
    this.#ingress = options.ingress;
    this.#containerListener = options.containerListener;
    this.#companion = options.companion;
    this.#now = options.now;
  }

  engine(): EngineState {
    return this.#manager.apps.engine.state;
  }

  async planApp(
    name: string,
    spec: AppSpec | undefined,
    signal: AbortSignal,
    annotations: Readonly<Record<string, string>> = {},
    plannedResources: readonly PlannedResource[] = [],
  ): Promise<PlanReport> {
    const stored = this.#store.get("App", name);
    if (!stored && spec === undefined)
      throw new NotFoundError(`there is no app "${name}"`, "berth get apps lists them");
    const requestedSpec = spec ?? stored?.spec ?? {};
    const resource = buildDryRunResource("App", name, stored, requestedSpec, annotations);
    const source = this.#assumeSource(stored, resource);
    const memory = applyInputs(
      { ...emptyReconcileState, ...stored?.status?.memory },
      resource.metadata.annotations[RETRIED_AT_ANNOTATION] ?? null,
      inputsDigest(this.#store, resource, source?.type === "resolved" ? source.revision : null),
    );
    const { ports } = this.#store;
    const route = await this.#ingress.table.read(name);
    const resolved = resolveApp({
      store: overlayPlannedResources(this.#store, plannedResources),
      resource,
      memory,
      ingress: this.#ingress,
      source,
      serving: route?.version ?? null,
      getLoopbackPort: (app, replica, port) => ports.get(app, replica, port) ?? 0,
      containerListener: this.#containerListener,
    });
    const strategy = chooseStrategy(
      resolveAppDefaults(requestedSpec),
      this.#ingress.mode !== "off",
    );
    const report = {
      app: name,
      generation: resource.metadata.generation,
      changes: diffSpecs(stored?.spec ?? {}, requestedSpec),
    };
    if (!resolved.desired) {
      return {
        ...report,
        strategy: strategy.type,
        strategyReason: strategy.message,
        operations: [],
        blockedBy: (resolved.refused ?? resolved.blocked)?.message ?? null,
      };
    }
    const { desired } = resolved;
    const containers = await this.#runtime.listContainers(
      { instance: this.#store.instanceId, app: name },
      signal,
    );
    const image = (await this.#runtime.inspectImage(desired.image, signal)) ? "present" : "absent";
    const observed = {
      nowMs: this.#now(),
      containers,
      health: new Map(),
      route,
      served: memory.served,
      firstSeen: { upSince: new Map<string, number>(), idleSince: new Map<string, number>() },
      stopping: new Set<string>(),
      isStalled: memory.stalled !== null,
      restarts: memory.restarts,
      isFresh: memory.attempt?.hash !== desired.hash,
      drifts: memory.drifts,
      stableReplicas: memory.stable?.hash === desired.hash ? memory.stable.replicas : 0,
      blockedBy: resolved.blocked?.message ?? null,
    };
    const plan = planApp(desired, { ...observed, image });
    // What comes after a pull is shown too: the pull is the first step, not the only one.
    const planAfterPull =
      image === "absent" && plan.operations.some(isImageOperation)
        ? planApp(desired, { ...observed, image: "present" })
        : undefined;
    return {
      ...report,
      strategy: plan.strategy.type,
      strategyReason: plan.strategy.message,
      operations: [
        ...plan.operations.filter((operation) => !planAfterPull || isImageOperation(operation)),
        ...(planAfterPull?.operations ?? []),
      ].map(describeOperation),
      blockedBy:
        stalledMessage(memory, plan) ?? (resolved.held ?? resolved.blocked)?.message ?? null,
    };
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
    return this.#companion.report();
  }

  otherModels(): readonly AssistantModel[] {
    return this.#models.otherModels;
  }

  appLogs(name: string, options: AppLogOptions, signal: AbortSignal): AsyncIterable<AppLogLine> {
    return readAppLogs(
      { store: this.#store, runtime: this.#runtime, archive: this.#archive },
      name,
      options,
      signal,
    );
  }

  wake(kind: Kind, name: string): void {
    this.#manager.wake(kind, name);
  }

  specs(): SpecsReport {
    return this.#specs.report();
  }

  async syncSpecs(signal: AbortSignal): Promise<SpecsGitReport> {
    if (this.#specs.sync) return this.#specs.sync(signal);
    throw new ConflictError("wrong_state", "the specs follow no repository", {
      hint: "start Berth with --specs-git-url URL",
    });
  }

  confirmPrune(): readonly { kind: Kind; name: string; file: string }[] {
    return this.#specs.confirmPrune();
  }

  /** A plan looks for no source: one that is not known yet stands for an image that has to be built. */
  #assumeSource(stored: Resource<"App"> | undefined, asked: Resource<"App">): SourceState | null {
    if (asked.spec.source === undefined) return null;
    const isSame =
      stored !== undefined &&
      canonicalJson([stored.spec.source, stored.spec.build, stored.metadata.annotations]) ===
        canonicalJson([asked.spec.source, asked.spec.build, asked.metadata.annotations]);
    if (isSame) return this.#builds.source(stored);
    const image = `berth-${this.#store.instanceId}/${asked.metadata.name}:new`;
    return { type: "resolved", revision: "", image };
  }
}

const isImageOperation = ({ type }: Operation) => type === "pullImage" || type === "buildImage";

function stalledMessage(memory: ReconcileState, plan: Plan): string | undefined {
  if (memory.stalled) return memory.stalled.message;
  return plan.driftLoop === null ? undefined : `"${plan.driftLoop}" is in a drift loop`;
}

function describeOperation(operation: Operation): PlanReport["operations"][number] {
  const target =
    "spec" in operation
      ? operation.spec.name
      : "name" in operation
        ? operation.name
        : "image" in operation
          ? operation.image
          : "network" in operation
            ? operation.network
            : operation.volume;
  return { operation: operation.type, target, cause: operation.cause };
}
