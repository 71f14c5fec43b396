import type { EmbeddingResult, Prompt, Sampling, Token, TokenLogprob } from "./runner.ts";

/**
 * What turns files into models that answer. Adapters: `llama` (llama.cpp, a process for each model),
 * `stub` (deterministic, for trying things out) and the scripted one of the tests; one contract suite
 * holds for all. An engine knows nothing of HTTP, of queues' limits or of the ledger.
 */
export interface InferenceEngine extends AsyncDisposable {
  /** As /health tells it: `llama.cpp`, or `stub`. */
  readonly name: string;
  /**
   * Reads what a file says of itself; loads nothing. Rejects with `model_unusable` for a file that is
   * missing, damaged or of an architecture that the engine does not know.
   */
  inspect(file: ModelFile, signal: AbortSignal): Promise<ModelFacts>;
  /**
   * Loads a model and resolves when it can answer. Rejects with `model_unusable`, or with
   * `insufficient_memory` and the numbers. An abort ends whatever was started.
   */
  load(request: LoadRequest, signal: AbortSignal): Promise<LoadedModel>;
}

export interface ModelFile {
  /** What clients call it; stands in messages, which never hold paths. */
  readonly id: string;
  readonly path: string;
}

export interface ModelFacts {
  readonly architecture: string;
  /** `general.name` of the file, where it has one. */
  readonly name: string | undefined;
  readonly parameters: number | undefined;
  /** `Q8_0`, `F16`, ...; undefined where the file does not say. */
  readonly quantization: string | undefined;
  readonly fileBytes: number;
  /** What it was trained with, in tokens. */
  readonly trainedContextTokens: number;
  readonly embeddingLength: number;
  /** chat: has a chat template; completion: generates, without a template; embedding: only embeds. */
  readonly kind: "chat" | "completion" | "embedding";
  /** Jinja, as the file has it. */
  readonly chatTemplate: string | undefined;
  /** What loading it with these sequences of that context would take, in bytes, all in all. */
  memoryBytes(options: { readonly contextTokens: number; readonly sequences: number }): number;
}

export interface LoadRequest extends ModelFile {
  /** Of one sequence. Undefined: what was trained, as far as it fits `memoryBytesMax`, at most 8,192. */
  readonly contextTokens: number | undefined;
  /** Undefined: 8, or fewer where memory is short. */
  readonly sequences: number | undefined;
  /** What the model may take in all; more is refused with `insufficient_memory`. */
  readonly memoryBytesMax: number;
  /** Cores that several models share; see `Cores`. */
  readonly cores: CoreLease;
}

/**
 * One model computes at a time: the threads of two would wait for each other spinning, which costs a
 * factor of a hundred. Whoever holds the cores may be asked to let go after its step.
 */
export interface CoreLease {
  /** Resolves when the caller may compute; at once while it holds the cores and nobody else wants them. */
  hold(priority: RequestPriority, signal: AbortSignal): Promise<void>;
  /** There is nothing more to compute for now. Safe to call without holding. */
  release(): void;
  /**
   * Tells when somebody else begins to wait for the cores, and when nobody does any more; returns a
   * function that ends it. An engine in another process keeps the cores without asking again while
   * they are not contested, and asks before every step while they are.
   */
  onContest(listener: (contested: boolean) => void): () => void;
}

export type RequestPriority = "interactive" | "background";

export interface LoadedModel extends AsyncDisposable {
  readonly id: string;
  readonly facts: ModelFacts;
  readonly contextTokens: number;
  readonly sequences: number;
  readonly memoryBytes: number;
  /** What it computes with, after calibration. */
  readonly threads: number;
  /**
   * Generates. Events come as they happen; whoever does not take them stops being stepped after a while
   * and goes on when it does, and stalls nobody. An abort, or leaving the loop, frees the sequence
   * within one step. Rejects with `context_length_exceeded` (both counts), `invalid_request`, or
   * `engine_failed` where the model's process ended.
   */
  generate(job: GenerateJob, signal: AbortSignal): AsyncIterable<GenerateEvent>;
  /** Rejects with `context_length_exceeded` naming the text that is too long, or `engine_failed`. */
  embed(
    texts: readonly string[],
    options: { readonly priority: RequestPriority },
    signal: AbortSignal,
  ): Promise<EmbeddingResult>;
  /** The tokens of a prompt, without generating. */
  encode(prompt: Prompt, signal: AbortSignal): Promise<readonly Token[]>;
  /** What goes on inside, for metrics and the control socket. */
  readonly load: ModelLoad;
  /** Resolves when the model has ended by itself (its process crashed); never rejects. */
  readonly ended: Promise<ModelEnd>;
}

export interface GenerateJob {
  readonly prompt: Prompt;
  readonly priority: RequestPriority;
  readonly sampling: Sampling;
  /** Undefined: to the end of the context. */
  readonly maxTokens: number | undefined;
  /** The answer ends before the first of these; none is empty. */
  readonly stop: readonly string[];
}

export type GenerateEvent =
  /** The prompt has been read; `cachedTokens` of its tokens were there from an earlier one. */
  | { readonly type: "started"; readonly promptTokens: number; readonly cachedTokens: number }
  /** `text` may be "" where only logprobs are told. */
  | { readonly type: "text"; readonly text: string; readonly logprobs?: readonly TokenLogprob[] }
  /** Last of all. */
  | {
      readonly type: "end";
      /** stop: the model ended, or a stop text was met; length: a limit was hit. */
      readonly reason: "stop" | "length";
      readonly completionTokens: number;
    };

export interface ModelLoad {
  /** Jobs on a sequence now. */
  readonly active: number;
  /** Jobs that wait for one. */
  readonly queued: number;
}

export interface ModelEnd {
  /** One line without paths: `killed by SIGSEGV`. */
  readonly reason: string;
}
