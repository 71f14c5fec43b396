import type { Caller } from "../caller.ts";
import type { Egress } from "../data-class.ts";
import type { RequestPriority } from "./inference-engine.ts";
import type { Prompt, Sampling, TokenLogprob } from "./runner.ts";

/**
 * Inference for the transports: HTTP, and the companion's D-Bus sessions. Implementations handle the ledger, model
 * selection and loading, schemas, tool calls and the engine. A transport checks the shape and the bounds of a request;
 * checks that need the model happen in the service.
 *
 * Errors are AssistantErrors. Their `param` names a field of the request as declared here (`model`, `prompts`,
 * `prompts[2]`, `guide.schema`, `tools[1].parameters`, `texts[3]`, `maxTokens`, `sampling.logitBias`); each transport
 * renames it to its own parameter.
 */
export interface InferenceService {
  /**
   * Generates answers; work starts with the first pull. The first event is `accepted`: the ledger has the entry and the
   * request is in the queue. It is yielded when the first prompt has been read, or five seconds after the call if
   * loading or queueing takes longer. Most refusals therefore reject the first pull: `ledger_unavailable`,
   * `model_not_found`, `no_model`, `unsupported_schema`, `queue_full`, `context_length_exceeded`, `model_unusable`, ...
   * Each choice then has any number of deltas and one `end`; the iterable ends after the last `end`.
   *
   * An abort, or ending the loop, frees all KV-cache sequences within one decoding step and settles a pending pull
   * immediately. If the caller stops pulling, its sequences pause without delaying others.
   */
  generate(request: GenerateRequest, signal: AbortSignal): AsyncIterable<AnswerEvent>;

  /**
   * Returns one unit vector for each text, in order. Never truncates a text: rejects with `context_length_exceeded`.
   */
  embed(request: EmbedRequest, signal: AbortSignal): Promise<EmbedAnswer>;

  /**
   * Returns every model that a request may name, the default model first. The lists of remote models may have to be
   * requested from their providers, for `asker`.
   */
  models(asker?: Asker): Promise<readonly ModelInfo[]>;

  /** Finds a model by id or alias. */
  model(name: string): Promise<ModelInfo | undefined>;

  /** Resolves to the state of the service. Never rejects. */
  health(): Promise<InferenceHealth>;
}

/** The maximum number of tokens of an answer if the request sets no limit, as the API documents it. */
export const DEFAULT_TOKENS_MAX = 1_024;

/**
 * The origin of a request, as far as the transport knows it. The ledger records it with each request to a provider.
 * `uid` is the user of the HTTP client's program; `settings` is the interface that manages providers.
 */
export type Asker =
  | { readonly door: "http"; readonly uid: number | undefined }
  | { readonly door: "overlay" | "settings"; readonly caller: Caller };

export interface GenerateRequest {
  /** The model's id or alias; undefined means the default model. */
  readonly model: string | undefined;
  /**
   * The prompts, of which there is at least one. Only a batch of plain completions has more than one. Choices are
   * numbered prompt by prompt: with n = 2, the second choice of the third prompt is choice 5.
   */
  readonly prompts: readonly Prompt[];
  /** The number of choices for each prompt, 1 or more. */
  readonly n: number;
  readonly sampling: SamplingParams;
  /** The limit of generated tokens; undefined means 1,024. With Infinity, only the context limits the answer. */
  readonly maxTokens: number | undefined;
  /** The answer ends before the first occurrence of one of these texts; none of them is empty. */
  readonly stop: readonly string[];
  readonly priority: RequestPriority;
  readonly guide: Guide;
  /** The tools that the answer may or must call. Has an effect only if the chat prompt has tools. */
  readonly toolChoice: ToolChoice;
  /** If true, one answer may contain several tool calls. */
  readonly parallelToolCalls: boolean;
  /**
   * True if the caller forwards events as they arrive. If false, an answer with a schema is held back until it has been
   * checked, and is sampled once more if it is invalid. If true, an answer that turns out to be invalid ends with the
   * error `invalid_output`.
   */
  readonly isStreamed: boolean;
  /**
   * Time for which the model stays loaded after the request. 0 means that the model is unloaded immediately, Infinity
   * that it stays loaded forever. If undefined, the default applies.
   */
  readonly keepAliveMs: number | undefined;
  /** For remote models: the data classes of the request and one-time consent. Undefined means `promptOnly`. */
  readonly egress?: Egress | undefined;
  /**
   * The origin of the request, which matters for remote models only. Undefined if no transport received the request.
   */
  readonly asker?: Asker | undefined;
  /**
   * Parameters that local models ignore and a provider may use (`reasoning_effort`, `user`, ...); sent to a remote
   * model unchanged.
   */
  readonly passthrough?: Readonly<Record<string, unknown>> | undefined;
}

/** Sampling parameters that the client set; the model or the engine has defaults for all other parameters. */
export type SamplingParams = {
  readonly [Name in
    | "temperature"
    | "topP"
    | "topK"
    | "minP"
    | "seed"
    | "repeatPenalty"
    | "presencePenalty"
    | "frequencyPenalty"
    | "logitBias"
    | "logprobs"]?: Sampling[Name] | undefined;
};

export type Guide =
  | { readonly kind: "none" }
  /** The answer is any JSON object. */
  | { readonly kind: "json_object" }
  | {
      readonly kind: "json_schema";
      readonly name: string | undefined;
      /** The schema as the client sent it: an object or a boolean. */
      readonly schema: unknown;
      readonly strict: boolean;
    };

export type ToolChoice =
  | { readonly kind: "auto" | "none" | "required" }
  | { readonly kind: "function"; readonly name: string };

export type AnswerEvent =
  /** `accepted` is the first event and occurs exactly once. */
  | { readonly type: "accepted"; readonly model: string; readonly ledgerSeq: number }
  /**
   * `started` occurs once for each prompt, when the prompt has been read; `cachedTokens` of its tokens were still
   * cached from an earlier prompt.
   */
  | {
      readonly type: "started";
      readonly prompt: number;
      readonly promptTokens: number;
      readonly cachedTokens: number;
    }
  /** `text` may be "" if the event only carries logprobs. */
  | {
      readonly type: "text";
      readonly choice: number;
      readonly text: string;
      readonly logprobs?: readonly TokenLogprob[] | undefined;
    }
  /** A part of the model's reasoning, which precedes its answer if the chat template separates the two. */
  | { readonly type: "reasoning"; readonly choice: number; readonly text: string }
  | {
      readonly type: "tool_call";
      readonly choice: number;
      /** Position of the call within its choice, from 0; the first delta of each call has `start`. */
      readonly index: number;
      /** Present only in the first delta of a call. */
      readonly start?: { readonly id: string; readonly name: string } | undefined;
      /** Next part of the arguments' JSON text; may be "". */
      readonly arguments: string;
    }
  /** The last event of a choice. */
  | {
      readonly type: "end";
      readonly choice: number;
      /** The reason why the choice ended; `length` means that a limit of the request or of the context was reached. */
      readonly reason: "stop" | "length" | "tool_calls";
      readonly completionTokens: number;
      /** The part of `completionTokens` that was reasoning. */
      readonly reasoningTokens?: number | undefined;
    };

export interface EmbedRequest {
  readonly model: string | undefined;
  /** The texts to embed: at least one text. No text is empty. */
  readonly texts: readonly string[];
  readonly priority: RequestPriority;
  readonly keepAliveMs: number | undefined;
  /** The data classes, one-time consent and the asker, as in GenerateRequest. */
  readonly egress?: Egress | undefined;
  readonly asker?: Asker | undefined;
  readonly passthrough?: Readonly<Record<string, unknown>> | undefined;
}

export interface EmbedAnswer {
  readonly model: string;
  readonly ledgerSeq: number;
  /** One vector of length 1 for each text. */
  readonly vectors: readonly Float32Array[];
  /** Token count of each text. */
  readonly tokens: readonly number[];
}

export interface ModelInfo {
  readonly id: string;
  readonly aliases: readonly string[];
  /** The time when the model's file was last modified, in seconds since the Unix epoch; OpenAI's `created`. */
  readonly createdSeconds: number;
  readonly kind: "chat" | "completion" | "embedding";
  /**
   * A model in the state `idle` is loaded on the next request. For a model in the state `failed`, loading failed and is
   * tried again later.
   */
  readonly state: "resident" | "loading" | "idle" | "failed";
  /** The reason why loading the model failed, and what the user can do about it. */
  readonly failure?: string | undefined;
  /** Context of one KV-cache sequence; undefined if it is not known before the model is loaded. */
  readonly contextTokens: number | undefined;
  readonly embeddingLength: number | undefined;
}

export interface InferenceHealth {
  /** `llama.cpp`, or `stub`. */
  readonly engine: string;
  /** False while the ledger cannot be written; every request would then be refused. */
  readonly ledgerOk: boolean;
  /** The models that should stay in memory but could not be loaded; absent if there are none. */
  readonly failedModels?: readonly { readonly id: string; readonly message: string }[];
  /**
   * The state of the system instance that runs the models; absent if this process runs them. `degraded` means that the
   * system instance answers, but refuses requests.
   */
  readonly upstream?: "ok" | "degraded" | "unreachable";
}
