import type { Clock } from "../../base/clock.ts";
import type {
  CoreLease,
  GenerateEvent,
  GenerateJob,
  LoadedModel,
  ModelEnd,
  ModelFacts,
  ModelLoad,
  RequestPriority,
} from "./inference-engine.ts";
import type { EmbeddingResult, Prompt, Runner, Token } from "./runner.ts";
import { Scheduler } from "./scheduler/scheduler.ts";

export interface InProcessModelOptions {
  readonly id: string;
  readonly facts: ModelFacts;
  readonly memoryBytes: number;
  readonly threads: number;
  /** The runner. The model owns it and disposes of it. */
  readonly runner: Runner;
  readonly cores: CoreLease;
  readonly clock: Clock;
}

/**
 * A model that runs in this process: a runner behind a scheduler. The stub and the tests use it directly; for llama.cpp
 * it runs inside the model's child process.
 */
export class InProcessModel implements LoadedModel {
  readonly id: string;
  readonly facts: ModelFacts;
  readonly contextTokens: number;
  readonly sequences: number;
  readonly memoryBytes: number;
  readonly threads: number;
  readonly #runner: Runner;
  readonly #scheduler: Scheduler;

  constructor(options: InProcessModelOptions) {
    this.id = options.id;
    this.facts = options.facts;
    this.contextTokens = options.runner.contextTokens;
    this.sequences = options.runner.sequences;
    this.memoryBytes = options.memoryBytes;
    this.threads = options.threads;
    this.#runner = options.runner;
    this.#scheduler = new Scheduler(options);
  }

  /**
   * Resolves when a call of a method of the runner was rejected. The runner's state is then unknown, so the model is
   * unusable.
   */
  get ended(): Promise<ModelEnd> {
    return this.#scheduler.ended;
  }

  get load(): ModelLoad {
    return this.#scheduler.load;
  }

  generate(job: GenerateJob, signal: AbortSignal): AsyncIterable<GenerateEvent> {
    return this.#scheduler.generate(job, signal);
  }

  embed(
    texts: readonly string[],
    options: { readonly priority: RequestPriority },
    signal: AbortSignal,
  ): Promise<EmbeddingResult> {
    return this.#scheduler.embed(texts, options.priority, signal);
  }

  encode(prompt: Prompt, signal: AbortSignal): Promise<readonly Token[]> {
    return this.#scheduler.encode(prompt, signal);
  }

  /** Rejects all work in progress with `shutting_down`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#scheduler[Symbol.asyncDispose]();
    await this.#runner[Symbol.asyncDispose]();
  }
}
