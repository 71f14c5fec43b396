import type { Egress } from "../data-class.ts";
import type { RequestPriority } from "./inference-engine.ts";
import type { Prompt, Sampling, TokenLogprob } from "./runner.ts";

/**
 * Inference as the transports see it: HTTP, and the bus of the companion. Behind it are the ledger, the
 * choice and loading of models, schemas, tool calls and the engine. A transport has checked the shape
 * and the bounds of a request; what needs the model to be judged is judged behind this.
 *
 * Errors are AssistantErrors. Their `param` names a field of the request as it stands here
 * (`model`, `prompts`, `prompts[2]`, `guide.schema`, `tools[1].parameters`, `texts[3]`, `maxTokens`,
 * `sampling.logitBias`): a transport says it in its own words.
 */
export interface InferenceService {
  /**
   * Generates. Nothing happens before the iterable is pulled. The first event is `accepted`: by then the
   * ledger has the entry and the request has its place in the queue. It comes when the first prompt has
   * been read, or five seconds after the call where loading or waiting takes longer than that: so what
   * is refused mostly rejects the first pull: `ledger_unavailable`, `model_not_found`, `no_model`,
   * `unsupported_schema`, `queue_full`, `context_length_exceeded`, `model_unusable`, ... Then for each choice any number of deltas, and its
   * `end`; the iterable ends after the last of them.
   *
   * An abort, or leaving the loop, frees every sequence within one step and makes a pending pull end or
   * reject at once. Whoever does not pull stops being stepped, and stalls nobody.
   */
  generate(request: GenerateRequest, signal: AbortSignal): AsyncIterable<AnswerEvent>;

  /** One unit vector for each text, in their order. Never truncates: `context_length_exceeded`. */
  embed(request: EmbedRequest, signal: AbortSignal): Promise<EmbedAnswer>;

  /** Every model that a request may name; the default one first. */
  models(): Promise<readonly ModelInfo[]>;

  /** By id or alias. */
  model(name: string): Promise<ModelInfo | undefined>;

  health(): InferenceHealth;
}

/** Of an answer where the request does not say, as the runtime's contract has it. */
export const DEFAULT_TOKENS_MAX = 1_024;

export interface GenerateRequest {
  /** Id or alias; undefined: the default model. */
  readonly model: string | undefined;
  /**
   * At least one; more only where a client batches plain completions. Choices are numbered prompt by
   * prompt: the second choice of the third prompt, with n = 2, is choice 5.
   */
  readonly prompts: readonly Prompt[];
  /** Choices for each prompt, 1 or more. */
  readonly n: number;
  readonly sampling: SamplingParams;
  /** Undefined: 1,024. Infinity: to the end of the context. Never past the context in any case. */
  readonly maxTokens: number | undefined;
  /** The answer ends before the first of these; none is empty. */
  readonly stop: readonly string[];
  readonly priority: RequestPriority;
  readonly guide: Guide;
  /** What the model may do with the tools of a chat prompt; without meaning where it has none. */
  readonly toolChoice: ToolChoice;
  /** Whether one answer may hold several tool calls. */
  readonly parallelToolCalls: boolean;
  /**
   * Whether the caller passes events on as they come. Where not, a guided answer is held back until it
   * has been checked, and is sampled once more where it is not valid; where it is, an answer that turns
   * out invalid ends with an error, `invalid_output`.
   */
  readonly isStreamed: boolean;
  /** How long the model stays loaded after this. 0: unload at once. Infinity: for ever. Undefined: the default. */
  readonly keepAliveMs: number | undefined;
  /** Of a remote model: what is in the request, and what was allowed for it. Undefined: `promptOnly`. */
  readonly egress?: Egress | undefined;
  /**
   * What a client said that means nothing to a local model and may to a provider (`reasoning_effort`, `user`,
   * ...): sent on as it is to a remote one.
   */
  readonly passthrough?: Readonly<Record<string, unknown>> | undefined;
}

/** What a client said of sampling; the rest is the model's, or the engine's, default. */
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
  /** Any JSON object. */
  | { readonly kind: "json_object" }
  | {
      readonly kind: "json_schema";
      readonly name: string | undefined;
      /** As the client wrote it: an object or a boolean. */
      readonly schema: unknown;
      readonly strict: boolean;
    };

export type ToolChoice =
  | { readonly kind: "auto" | "none" | "required" }
  | { readonly kind: "function"; readonly name: string };

export type AnswerEvent =
  /** First of all, once. */
  | { readonly type: "accepted"; readonly model: string; readonly ledgerSeq: number }
  /** Once for each prompt, when it has been read; `cachedTokens` of its tokens were there from an earlier one. */
  | {
      readonly type: "started";
      readonly prompt: number;
      readonly promptTokens: number;
      readonly cachedTokens: number;
    }
  /** `text` may be "" where only logprobs are told. */
  | {
      readonly type: "text";
      readonly choice: number;
      readonly text: string;
      readonly logprobs?: readonly TokenLogprob[] | undefined;
    }
  /** What the model thinks before it answers, where its template sets that apart. */
  | { readonly type: "reasoning"; readonly choice: number; readonly text: string }
  | {
      readonly type: "tool_call";
      readonly choice: number;
      /** Which call of this choice, from 0; each begins with its `start`. */
      readonly index: number;
      /** With the first delta of a call only. */
      readonly start?: { readonly id: string; readonly name: string } | undefined;
      /** More of the arguments' JSON text; may be "". */
      readonly arguments: string;
    }
  /** Last of a choice. */
  | {
      readonly type: "end";
      readonly choice: number;
      /** length: a limit was hit, of the request or of the context. */
      readonly reason: "stop" | "length" | "tool_calls";
      readonly completionTokens: number;
      /** Of them, those that were reasoning. */
      readonly reasoningTokens?: number | undefined;
    };

export interface EmbedRequest {
  readonly model: string | undefined;
  /** At least one; none is empty. */
  readonly texts: readonly string[];
  readonly priority: RequestPriority;
  readonly keepAliveMs: number | undefined;
  /** As of a GenerateRequest. */
  readonly egress?: Egress | undefined;
  readonly passthrough?: Readonly<Record<string, unknown>> | undefined;
}

export interface EmbedAnswer {
  readonly model: string;
  readonly ledgerSeq: number;
  /** Of length 1, one for each text. */
  readonly vectors: readonly Float32Array[];
  /** Of each text. */
  readonly tokens: readonly number[];
}

export interface ModelInfo {
  readonly id: string;
  readonly aliases: readonly string[];
  /** When its file was made, in seconds since the Unix epoch. */
  readonly createdSeconds: number;
  readonly kind: "chat" | "completion" | "embedding";
  /** idle: known, and loaded when it is asked for. failed: it did not load; tried again later. */
  readonly state: "resident" | "loading" | "idle" | "failed";
  /** Of one that has failed: why, and what to do. */
  readonly failure?: string | undefined;
  /** Of one sequence; undefined: not known before it is loaded. */
  readonly contextTokens: number | undefined;
  readonly embeddingLength: number | undefined;
}

export interface InferenceHealth {
  /** `llama.cpp`, or `stub`. */
  readonly engine: string;
  /** False while nothing can be appended, so that every request would be refused. */
  readonly ledgerOk: boolean;
}
