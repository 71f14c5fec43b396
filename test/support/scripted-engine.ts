import { InProcessModel } from "../../src/assistant/inference/in-process-model.ts";
import type {
  CoreLease,
  GenerateEvent,
  GenerateJob,
  InferenceEngine,
  LoadedModel,
  LoadRequest,
  ModelEnd,
  ModelFacts,
  ModelFile,
  RequestPriority,
} from "../../src/assistant/inference/inference-engine.ts";
import type {
  EmbeddingResult,
  Prompt,
  Sampling,
  Token,
} from "../../src/assistant/inference/runner.ts";
import { type Clock, delay } from "../../src/base/clock.ts";
import { ScriptedRunner, type ScriptedRunnerOptions } from "./scripted-runner.ts";

export interface ScriptedEngineOptions extends ScriptedRunnerOptions {
  readonly clock: Clock;
  readonly facts?: Partial<ModelFacts>;
  /** The duration of `load`, measured by the clock. */
  readonly loadMs?: number;
  /** Returns the error with which `inspect` and `load` fail for a file; undefined if they succeed. */
  readonly refuse?: (file: ModelFile) => Error | undefined;
}

/** An engine whose models answer, wait and crash as the test defines. */
export class ScriptedEngine implements InferenceEngine {
  readonly name = "scripted";
  /** All loaded models, the newest last. */
  readonly models: ScriptedModel[] = [];
  disposed = false;
  readonly #options: ScriptedEngineOptions;

  constructor(options: ScriptedEngineOptions) {
    this.#options = options;
  }

  async inspect(file: ModelFile, signal: AbortSignal): Promise<ModelFacts> {
    signal.throwIfAborted();
    const refusal = this.#options.refuse?.(file);
    if (refusal) throw refusal;
    return { ...facts, ...this.#options.facts };
  }

  async load(request: LoadRequest, signal: AbortSignal): Promise<LoadedModel> {
    const ownFacts = await this.inspect(request, signal);
    if (this.#options.loadMs) await delay(this.#options.clock, this.#options.loadMs, signal);
    const model = new ScriptedModel(request, ownFacts, this.#options);
    this.models.push(model);
    return model;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.disposed = true;
  }
}

export class ScriptedModel implements LoadedModel {
  readonly id: string;
  readonly facts: ModelFacts;
  readonly contextTokens: number;
  readonly sequences: number;
  readonly memoryBytes: number;
  readonly threads = 1;
  readonly ended: Promise<ModelEnd>;
  readonly runner: ScriptedRunner;
  disposed = false;
  readonly #model: InProcessModel;
  #onCrash: (end: ModelEnd) => void = () => {};

  constructor(request: LoadRequest, ownFacts: ModelFacts, options: ScriptedEngineOptions) {
    this.id = request.id;
    this.facts = ownFacts;
    this.runner = new ScriptedRunner({
      ...options,
      sequences: request.sequences ?? options.sequences ?? 4,
      contextTokens: request.contextTokens ?? options.contextTokens ?? 256,
    });
    this.contextTokens = this.runner.contextTokens;
    this.sequences = this.runner.sequences;
    this.memoryBytes = ownFacts.memoryBytes(this);
    this.#model = new InProcessModel({
      id: this.id,
      facts: ownFacts,
      memoryBytes: this.memoryBytes,
      threads: this.threads,
      runner: this.runner,
      cores: request.cores,
      clock: options.clock,
    });
    const crashed = new Promise<ModelEnd>((resolve) => {
      this.#onCrash = resolve;
    });
    this.ended = Promise.race([crashed, this.#model.ended]);
  }

  get load() {
    return this.#model.load;
  }

  /** Acts as if the model's process was killed: its requests fail, and `ended` resolves. */
  crash(reason = "killed by SIGSEGV"): void {
    const isIdle = this.load.active === 0;
    this.runner.crash();
    // As with a real process, the requests fail before `ended` resolves.
    if (isIdle) this.#onCrash({ reason });
  }

  generate(job: GenerateJob, signal: AbortSignal): AsyncIterable<GenerateEvent> {
    return this.#model.generate(job, signal);
  }

  embed(
    texts: readonly string[],
    options: { readonly priority: RequestPriority },
    signal: AbortSignal,
  ): Promise<EmbeddingResult> {
    return this.#model.embed(texts, options, signal);
  }

  encode(prompt: Prompt, signal: AbortSignal): Promise<readonly Token[]> {
    return this.#model.encode(prompt, signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.disposed = true;
    await this.#model[Symbol.asyncDispose]();
  }
}

/** A lease of cores that no other model requests. */
export const uncontestedCores: CoreLease = {
  hold: async () => {},
  release: () => {},
  onContest: () => () => {},
};

/** Sampling parameters for free text that choose the likeliest tokens. */
export const plainSampling: Sampling = {
  temperature: 0,
  topP: 1,
  topK: 0,
  minP: 0,
  seed: 1,
  repeatPenalty: 1,
  presencePenalty: 0,
  frequencyPenalty: 0,
  logitBias: {},
  logprobs: undefined,
  grammar: undefined,
  grammarExample: undefined,
  showControlTokens: false,
};

export function createTextJob(text: string, changes: Partial<GenerateJob> = {}): GenerateJob {
  return {
    prompt: { kind: "text", text },
    priority: "interactive",
    sampling: plainSampling,
    maxTokens: undefined,
    stop: [],
    ...changes,
  };
}

const facts: ModelFacts = {
  architecture: "scripted",
  name: undefined,
  parameters: 1_000,
  quantization: "F16",
  fileBytes: 1_000_000,
  trainedContextTokens: 256,
  embeddingLength: 8,
  kind: "chat",
  chatTemplate: undefined,
  memoryBytes: ({ contextTokens, sequences }) => 1_000_000 + contextTokens * sequences * 100,
};
