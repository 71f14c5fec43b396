import type { EmbeddingResult, Prompt, Sampling, Token, TokenLogprob } from "./runner.ts";

/**
 * Loads model files into models that can answer. Adapters: `llama` (llama.cpp, one process for each model), `stub`
 * (deterministic, for trials) and the scripted engine of the tests; all pass one contract suite. An engine knows
 * nothing of HTTP, queue limits or the ledger.
 */
export interface InferenceEngine extends AsyncDisposable {
  /** The engine's name in /health: `llama.cpp` or `stub`. */
  readonly name: string;
  /**
   * Reads the metadata of a model file without loading it. Rejects with `model_unusable` if the file is missing or
   * damaged, or its architecture is unknown to the engine.
   */
  inspect(file: ModelFile, signal: AbortSignal): Promise<ModelFacts>;
  /**
   * Loads a model and resolves when it can answer. Rejects with `model_unusable`, or with `insufficient_memory`, whose
   * message contains the needed and the allowed memory. An abort stops the processes that the load has started.
   */
  load(request: LoadRequest, signal: AbortSignal): Promise<LoadedModel>;
}

export interface ModelFile {
  /** The model's name for clients. Messages use it in place of the path. */
  readonly id: string;
  readonly path: string;
  /** The chat template that replaces the file's own; undefined if there is none. */
  readonly chatTemplate?: string | undefined;
}

export interface ModelFacts {
  readonly architecture: string;
  /** The value of `general.name` in the metadata of the file; undefined if the file has none. */
  readonly name: string | undefined;
  readonly parameters: number | undefined;
  /** The quantization, such as `Q8_0` or `F16`; undefined if the file does not state it. */
  readonly quantization: string | undefined;
  readonly fileBytes: number;
  /** Context length that the model was trained with, in tokens. */
  readonly trainedContextTokens: number;
  readonly embeddingLength: number;
  /**
   * Models of kind `chat` generate and have a chat template, those of kind `completion` generate without a template,
   * and those of kind `embedding` only embed.
   */
  readonly kind: "chat" | "completion" | "embedding";
  /**
   * The Jinja template, unchanged: the template in the settings of the model or, if there is none, the template in the
   * file.
   */
  readonly chatTemplate: string | undefined;
  /**
   * The memory in bytes that the loaded model needs in total, with this number of KV-cache sequences and this context
   * for each sequence.
   */
  memoryBytes(options: MemoryOptions): number;
}

export interface MemoryOptions {
  readonly contextTokens: number;
  readonly sequences: number;
  /** See `LoadRequest`. */
  readonly isDeterministic?: boolean | undefined;
}

export interface LoadRequest extends ModelFile {
  /**
   * Context of one KV-cache sequence in tokens. Undefined means the trained length as far as it fits `memoryBytesMax`,
   * at most 8,192.
   */
  readonly contextTokens: number | undefined;
  /** The number of KV-cache sequences; undefined means 8, or fewer if memory is short. */
  readonly sequences: number | undefined;
  /**
   * True if a request must get the same answer and the same logprobs, bit for bit, whatever the model has answered
   * before and answers at the same time.
   */
  readonly isDeterministic?: boolean | undefined;
  /** Memory that the model may use in total; a model that needs more is rejected with `insufficient_memory`. */
  readonly memoryBytesMax: number;
  /** Processor cores that several models share; see `CoreLease`. */
  readonly cores: CoreLease;
}

/**
 * A lease on the processor cores. Only one model computes at a time, because the threads of two models would spin while
 * they wait for each other, and both would be about a hundred times slower. A model may be asked to release the cores
 * after its current runner call.
 */
export interface CoreLease {
  /**
   * Resolves when the caller may compute: immediately if it already holds the cores and no other model waits for them.
   */
  hold(priority: RequestPriority, signal: AbortSignal): Promise<void>;
  /**
   * Releases the cores. To be called when the model has no more work; has no effect if the model does not hold them.
   */
  release(): void;
  /**
   * Calls back when another model starts to wait for the cores and when none waits any more; returns a function that
   * unsubscribes. An engine in another process keeps the cores while no other model waits for them. While one waits,
   * the engine requests the cores before each decoding step.
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
  /** The number of threads that the model uses after calibration. */
  readonly threads: number;
  /**
   * Generates and yields events as they happen. If the caller stops pulling, the generation soon pauses until the
   * caller pulls again. The pause delays no other generation. If the caller aborts or ends its iteration, the KV-cache
   * sequence is free within one decoding step. Rejects with `context_length_exceeded`, `invalid_request`, or
   * `engine_failed` if the model's process exited.
   */
  generate(job: GenerateJob, signal: AbortSignal): AsyncIterable<GenerateEvent>;
  /**
   * Computes the embeddings of texts. Rejects with `context_length_exceeded`, which names the text that is too long, or
   * `engine_failed`.
   */
  embed(
    texts: readonly string[],
    options: { readonly priority: RequestPriority },
    signal: AbortSignal,
  ): Promise<EmbeddingResult>;
  /** Returns the tokens of a prompt without generating. */
  encode(prompt: Prompt, signal: AbortSignal): Promise<readonly Token[]>;
  /** The current numbers of active and queued jobs, for metrics and the control socket. */
  readonly load: ModelLoad;
  /** Resolves when the process of the model has crashed, and not when the model was unloaded; never rejects. */
  readonly ended: Promise<ModelEnd>;
}

export interface GenerateJob {
  readonly prompt: Prompt;
  readonly priority: RequestPriority;
  readonly sampling: Sampling;
  /** The limit of generated tokens; undefined means that only the context limits the answer. */
  readonly maxTokens: number | undefined;
  /** The answer ends before the first occurrence of one of these texts; none of them is empty. */
  readonly stop: readonly string[];
}

export type GenerateEvent =
  /**
   * `started` is emitted when the prompt has been read; `cachedTokens` of its tokens were still cached from an earlier
   * prompt.
   */
  | { readonly type: "started"; readonly promptTokens: number; readonly cachedTokens: number }
  /** `text` may be "" if the event only carries logprobs. */
  | { readonly type: "text"; readonly text: string; readonly logprobs?: readonly TokenLogprob[] }
  /** The last event. */
  | {
      readonly type: "end";
      /**
       * The value `stop` means that the model ended its answer or that a stop text occurred; `length` means that a
       * limit was reached.
       */
      readonly reason: "stop" | "length";
      readonly completionTokens: number;
    };

export interface ModelLoad {
  /** The number of generations that hold a KV-cache sequence. */
  readonly active: number;
  /** The number of generations without a KV-cache sequence and of embedding jobs that have not started. */
  readonly queued: number;
}

export interface ModelEnd {
  /** The reason in one line without paths, such as `killed by SIGSEGV`. */
  readonly reason: string;
}
