import { hashJson } from "../../base/canonical-json.ts";
import {
  emptyModelReconcileState,
  type ModelFileFacts,
  type ModelReconcileState,
  type ResolvedModel,
} from "../../resources/model-status.ts";
import type { Resource } from "../../resources/resource.ts";
import type { Reason } from "../reason.ts";
import type { ReconcileResult } from "../reconcile-loop.ts";
import type { AssistantObservation } from "./assistant-watch.ts";
import { deriveModelStatus } from "./derive-model-status.ts";
import {
  computeStallInputs,
  type DesiredModel,
  desiredModel,
  findCredentialProblem,
  resolveToken,
} from "./desired-model.ts";
import { buildLoadRequest } from "./load-request.ts";
import type { ModelContext } from "./model-context.ts";
import type { JobRequest, JobResult, JobStep } from "./model-jobs.ts";
import { applyModelInputs } from "./model-reconcile-state.ts";
import { computeFactsKey, observeModel } from "./observe-model.ts";
import {
  isLoadedAsWanted,
  type ModelOperation,
  type ModelPlan,
  type ObservedModel,
  planModel,
  stepsByOperation,
} from "./plan-model.ts";
import { RETRY_MAX_MS, recordStepFailure, toError } from "./step-failure.ts";

/** The interval of progress updates in the stored status, in milliseconds. The API reads the running job instead. */
const PROGRESS_WRITTEN_MS = 2_000;
/** The maximum number of steps of one reconcile run. More steps are only possible if the plan loops. */
const STEPS_MAX = 10;

/** One reconcile of a Model: observes, plans, starts the first step and writes the status. */
export class ModelRun {
  readonly #context: ModelContext;
  readonly #resource: Resource<"Model">;
  readonly #desired: DesiredModel;
  #memory: ModelReconcileState;
  #facts: ModelFileFacts | null;

  constructor(context: ModelContext, resource: Resource<"Model">) {
    this.#context = context;
    this.#resource = resource;
    this.#desired = desiredModel(resource);
    this.#memory = { ...emptyModelReconcileState, ...resource.status?.memory };
    this.#facts = resource.status?.facts ?? null;
  }

  async reconcile(signal: AbortSignal): Promise<ReconcileResult> {
    const { store, jobs } = this.#context;
    const { name } = this.#desired;
    const inputs = computeStallInputs(store, this.#resource);
    this.#memory = applyModelInputs(this.#memory, this.#desired, inputs);
    const refused = findCredentialProblem(store, this.#resource.spec) ?? null;
    for (let step = 0; step < STEPS_MAX; step += 1) {
      const observation = await this.#context.watch.observe(signal);
      const observed = await this.#observe(observation);
      const plan = planModel(this.#desired, observed);
      this.#clearResolvedFailure(plan, observed);
      const next = this.#chooseNext(plan, refused);
      if (this.#settleFinishedJob(next)) continue;
      const waitMs = next ? this.#getRetryDelayMs(next) : 0;
      if (next && waitMs === 0 && this.#startStep(next, observed)) continue;
      this.#writeStatus(observed, observation, plan, refused);
      if (waitMs > 0) return { isSettled: true, requeueAfterMs: waitMs };
      const isAtWork = jobs.current(name)?.state.type === "running";
      return { isSettled: true, requeueAfterMs: isAtWork ? PROGRESS_WRITTEN_MS : null };
    }
    throw new Error(`the reconcile of model ${name} does not converge`);
  }

  #observe(observation: AssistantObservation): Promise<ObservedModel> {
    return observeModel({
      desired: this.#desired,
      memory: this.#memory,
      facts: this.#facts,
      files: this.#context.files,
      observation,
      all: this.#context.store.list("Model"),
    });
  }

  /** Clears the failure of a step whose goal was reached later, such as a load that the assistant completed. */
  #clearResolvedFailure(
    { operations, blockedBy }: ModelPlan,
    { stored, assistant }: ObservedModel,
  ): void {
    const { failure, pin } = this.#memory;
    const { name, running, inputs } = this.#desired;
    const resident = assistant.reachable ? assistant.model : undefined;
    if (pin?.inputs === inputs && isLoadedAsWanted(this.#desired, stored, resident))
      this.#updateMemory({ replaced: null });
    if (!failure || blockedBy !== null || this.#context.jobs.current(name)) return;
    if (operations.some(({ type }) => stepsByOperation[type] === failure.step)) return;
    const isOpen = failure.step === "load" && running;
    if (isOpen && !isLoadedAsWanted(this.#desired, stored, resident)) return;
    this.#updateMemory({ failure: null });
  }

  /** Returns the next operation. A stalled model may only be unloaded. */
  #chooseNext(plan: ModelPlan, refused: Reason | null): ModelOperation | undefined {
    const [first] = plan.operations;
    // Unloading does not wait for a download or for the source.
    const unload = plan.operations.find(({ type }) => type === "unloadModel");
    if (unload || this.#memory.stalled) return unload;
    // Only the source needs the credential: a file on the disk is loaded without it.
    const isOfSource = first?.type === "resolveSource" || first?.type === "downloadFiles";
    return refused && isOfSource ? undefined : first;
  }

  /** Returns the time in milliseconds before a failed step may be retried. */
  #getRetryDelayMs({ type }: ModelOperation): number {
    const { failure } = this.#memory;
    if (failure?.step !== stepsByOperation[type]) return 0;
    const waitMs = Math.max(0, failure.retryAt - this.#context.clock.now());
    // No failure causes a delay longer than RETRY_MAX_MS. A longer one means that the machine's clock was wrong and
    // has been corrected, so the failed step is retried now.
    return waitMs > RETRY_MAX_MS ? 0 : waitMs;
  }

  /** Starts a step of the Model's plan or handles its result. Returns false until the step has ended. */
  #startStep(operation: ModelOperation, observed: ObservedModel): boolean {
    const begin: Readonly<Record<JobStep, () => boolean>> = {
      resolve: () => this.#resolve(),
      download: () => this.#downloadOrVerify("download"),
      verify: () => this.#downloadOrVerify("verify"),
      inspect: () => this.#inspect(observed),
      unload: () => this.#unload(),
      load: () => this.#load(observed),
    };
    return begin[stepsByOperation[operation.type]]();
  }

  #resolve(): boolean {
    const { sources, store } = this.#context;
    const { inputs, request } = this.#desired;
    const token = resolveToken(store, this.#resource.spec);
    const isRefresh = this.#memory.refresh === "resolve" && this.#memory.pin?.inputs === inputs;
    const { failure } = this.#memory;
    const downloadFailure = failure?.step === "download" ? failure : undefined;
    return this.#runJob(
      {
        step: "resolve",
        key: hashJson([inputs, token ?? null, this.#memory.retriedAt]),
        run: async (_, signal) => {
          const model = await sources.resolve({ ...request, token }, signal);
          return { step: "resolve", model };
        },
      },
      (result) => {
        if (result.step !== "resolve") return;
        const { model } = result;
        const isSame = this.#memory.pin?.model.key === model.key;
        if (isSame && downloadFailure)
          this.#updateMemory({ failure: { ...downloadFailure, isAsked: true } });
        this.#updateMemory({
          pin: { inputs, model },
          replaced: isSame ? this.#memory.replaced : this.#chooseReplaced(model.key),
          refresh: this.#memory.refresh === null ? null : "verify",
        });
        if (!isSame) {
          const what = joinFileNames(model);
          const at = model.commit === null ? "" : ` at ${model.commit.slice(0, 12)}`;
          this.#recordEvent("Normal", "Resolved", `the source was resolved to ${what}${at}`);
        }
      },
      (error) => {
        if (!isRefresh) return false;
        // The model's files are still usable, so they are kept although the source cannot be resolved again.
        this.#updateMemory({ refresh: "verify" });
        this.#recordEvent(
          "Warning",
          "SourceUnreachable",
          `the source could not be resolved again: ${error.message}`,
        );
        return true;
      },
    );
  }

  /** Returns the previous model. Until the new model is complete, the assistant may load the previous one's file. */
  #chooseReplaced(key: string): ModelReconcileState["replaced"] {
    const { pin, replaced } = this.#memory;
    if (!this.#desired.running) return null;
    const kept = replaced ?? pin?.model ?? null;
    return kept?.key === key ? null : kept;
  }

  #downloadOrVerify(step: "download" | "verify"): boolean {
    const { files, sources, store } = this.#context;
    const model = this.#memory.pin?.model;
    if (!model) return false;
    const token = sources.tokenFor(model, resolveToken(store, this.#resource.spec));
    return this.#runJob(
      {
        step,
        key: hashJson([model.key, token ?? null, this.#memory.retriedAt]),
        run: async (onProgress, signal) => {
          if (step === "download") await files.download(model, { token, onProgress }, signal);
          else await files.verify(model, signal);
          return { step };
        },
      },
      () => {},
      (error) => {
        if (step !== "verify") return false;
        this.#recordDamage(error);
        return true;
      },
    );
  }

  /** Records a damaged file, which is no longer used. The next step downloads it again. */
  #recordDamage(error: Error): void {
    this.#updateMemory({ refresh: null });
    this.#recordEvent("Warning", "Damaged", error.message);
  }

  #inspect(observed: ObservedModel): boolean {
    const { stored } = observed;
    if (!stored) return false;
    const job = this.#context.jobs.current(this.#desired.name);
    // When all files are on the disk, the download's job ends within moments, so the inspection waits for its end.
    if (job?.step === "download" && job.state.type === "running") return false;
    const { name: id, contextTokens, sequences, chatTemplate, deterministic } = this.#desired;
    const key = computeFactsKey(stored.path, this.#desired);
    return this.#runJob(
      {
        step: "inspect",
        key,
        run: async (_, signal) => {
          const { path } = stored;
          const file = { id, path, contextTokens, sequences, chatTemplate, deterministic };
          return { step: "inspect", facts: await this.#context.assistant.inspect(file, signal) };
        },
      },
      (result) => {
        if (result.step === "inspect") this.#facts = result.facts;
        this.#updateMemory({ factsOf: key });
      },
    );
  }

  #unload(): boolean {
    const { name } = this.#desired;
    return this.#runJob({
      step: "unload",
      key: name,
      run: async (_, signal) => {
        await this.#context.assistant.unload(name, signal);
        return { step: "unload" };
      },
    });
  }

  #load(observed: ObservedModel): boolean {
    const { store, assistant } = this.#context;
    const quantization = this.#memory.pin?.model.quantization ?? null;
    const load = buildLoadRequest(this.#desired, observed, {
      spec: this.#resource.spec,
      quantization,
      all: store.list("Model"),
    });
    if (!load) return false;
    const { memoryBytesMax: _memoryBytesMax, ...identity } = load;
    return this.#runJob({
      step: "load",
      key: hashJson(identity),
      run: async (_, signal) => {
        await assistant.load(load, signal);
        return { step: "load" };
      },
    });
  }

  /** Runs a job; returns false until its result was handled. Does not record a failure if `onFailed` returns true. */
  #runJob(
    request: JobRequest,
    onDone: (result: JobResult) => void = () => {},
    onFailed: (error: Error) => boolean = () => false,
  ): boolean {
    const { jobs } = this.#context;
    const { name } = this.#desired;
    const state = jobs.ensure(name, request);
    if (state.type === "waiting" || state.type === "running") return false;
    jobs.clearResult(name);
    if (state.type === "done") {
      this.#recordSuccess(request.step);
      onDone(state.result);
      return true;
    }
    const error = toError(state.error);
    if (onFailed(error)) return true;
    this.#recordFailure(request.step, error);
    return true;
  }

  /**
   * Handles the result of an ended job that the plan does not need any more, because the plan's goal was reached in
   * another way or the Model's files have changed. Returns true if there was such a job.
   */
  #settleFinishedJob(next: ModelOperation | undefined): boolean {
    const { jobs } = this.#context;
    const { name } = this.#desired;
    const job = jobs.current(name);
    if (job?.state.type !== "done" && job?.state.type !== "failed") return false;
    if (next && stepsByOperation[next.type] === job.step) return false;
    jobs.clearResult(name);
    if (job.state.type === "done") this.#recordSuccess(job.step);
    else if (job.step === "verify") this.#recordDamage(toError(job.state.error));
    // A failed load is recorded too, because the assistant has marked the model as failed and will not retry without a
    // request.
    else if (job.step === "load") this.#recordFailure(job.step, toError(job.state.error));
    return true;
  }

  #recordSuccess(step: JobStep): void {
    this.#updateMemory({ failure: null });
    if (step === "unload") this.#updateMemory({ replaced: null });
    const what = joinFileNames(this.#memory.pin?.model);
    if (step === "download" || step === "verify") this.#updateMemory({ refresh: null });
    if (step === "download") {
      this.#recordEvent("Normal", "Downloaded", `${what}: on the disk and verified`);
      this.#context.onFilesUnused();
    } else if (step === "verify")
      this.#recordEvent("Normal", "Verified", `${what}: the digests match`);
    else if (step === "load")
      this.#recordEvent("Normal", "Started", `the model is loaded as "${this.#desired.name}"`);
    else if (step === "unload") this.#recordEvent("Normal", "Stopped", "the model is unloaded");
  }

  #recordFailure(step: JobStep, error: Error): void {
    const { store, clock, logger, random } = this.#context;
    const { name } = this.#desired;
    const inputs = computeStallInputs(store, this.#resource);
    const nowMs = clock.now();
    this.#memory = recordStepFailure(error, step, this.#memory, { inputs, nowMs, random });
    const reason = this.#memory.stalled ?? this.#memory.failure;
    if (reason) this.#recordEvent("Warning", reason.reason, reason.message);
    if (reason?.reason === "WillRetry")
      logger.error({ kind: "Model", name, step: step, err: error }, "a step failed");
  }

  #updateMemory(change: Partial<ModelReconcileState>): void {
    this.#memory = { ...this.#memory, ...change };
  }

  #recordEvent(type: "Normal" | "Warning", reason: string, message: string): void {
    const { name } = this.#desired;
    this.#context.store.events.record({ kind: "Model", name, type, reason, message });
  }

  /** Records the event Crashed if the model's engine exited. The assistant reloads the model by itself. */
  #recordCrash({ assistant }: ObservedModel): void {
    const model = assistant.reachable ? assistant.model : undefined;
    if (!this.#resource.status?.loaded || !model?.recovering || model.state === "resident") return;
    const why = model.error?.message ?? "its engine exited";
    this.#recordEvent("Warning", "Crashed", `${why}; the assistant loads the model again`);
  }

  #writeStatus(
    observed: ObservedModel,
    observation: AssistantObservation,
    plan: ModelPlan,
    refused: Reason | null,
  ): void {
    const { store, clock, jobs } = this.#context;
    const { name, uid } = this.#resource.metadata;
    this.#recordCrash(observed);
    const isCurrent = this.#memory.pin?.inputs === this.#desired.inputs;
    const status = deriveModelStatus({
      resource: this.#resource,
      desired: this.#desired,
      nowMs: clock.now(),
      memory: this.#memory,
      stored: isCurrent ? observed.stored : undefined,
      storedBytes: isCurrent ? observed.storedBytes : 0,
      facts: this.#facts,
      assistant:
        observation.reachable && observed.assistant.reachable
          ? { reachable: true, url: observation.state.url, model: observed.assistant.model }
          : { reachable: false, message: observation.reachable ? "" : observation.message },
      plan,
      job: jobs.current(name),
      refused,
    });
    store.setStatus("Model", name, uid, status);
  }
}

function joinFileNames(model: ResolvedModel | undefined): string {
  return (model?.files ?? []).map(({ name }) => name).join(", ");
}
