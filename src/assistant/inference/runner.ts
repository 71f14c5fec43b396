/**
 * One loaded model as the scheduler uses it: KV-cache sequences that are filled in chunks, and that decode one token
 * each per decoding step. Adapters: llama.cpp (in a child process), the stub, and scripted runners of the tests. A
 * runner has one scheduler, which never runs two methods that touch KV-cache sequences at the same time.
 */
export interface Runner extends AsyncDisposable {
  /** Number of KV-cache sequences; their ids start at 0. */
  readonly sequences: number;
  /** The number of tokens that one KV-cache sequence can hold, prompt and answer together. */
  readonly contextTokens: number;
  /** The pieces in which prompts are prefilled. Between two pieces the other KV-cache sequences get a decoding step. */
  readonly pieces: PieceRule;

  /**
   * Returns the tokens of a prompt. Rejects with AssistantError `invalid_request` if the chat template rejects the
   * prompt.
   */
  encode(prompt: Prompt): Promise<readonly Token[]>;

  /**
   * Erases the tokens of the KV-cache sequence beyond the first `length`. Resolves to the number of tokens that remain:
   * a model whose state cannot be cut there keeps fewer, down to 0.
   */
  truncate(sequence: number, length: number): Promise<number>;

  /** Evaluates one piece of a prompt at the end of the KV-cache sequence, without sampling. */
  prefill(sequence: number, tokens: readonly Token[]): Promise<void>;

  /**
   * Starts to generate on a KV-cache sequence. `last` is the one token of the prompt that was not prefilled; the first
   * decoding step evaluates it, and nothing is evaluated before. An error that this method throws ends only this job.
   */
  start(sequence: number, last: Token, sampling: Sampling): TokenStream;

  /**
   * Samples one token for each stream. The streams are evaluated together as one batch, and must be in the order of
   * their KV-cache sequences. Resolves to one outcome for each stream, in the order of `streams`. Resolves in a later
   * turn of the event loop, so that a caller that steps in a loop does not block other work. A failure of one stream is
   * its own outcome; a rejection means that the whole model is broken.
   */
  step(streams: readonly TokenStream[]): Promise<readonly StepOutcome[]>;

  /**
   * Returns unit vectors and the token count of each text; an abort takes effect between two texts. After a rejection
   * with TextTooLongError the runner can still be used. Touches no KV-cache sequence. The scheduler calls this method
   * between decoding steps, never twice at the same time, and with few texts at a time while a generation waits.
   */
  embed(texts: readonly string[], signal: AbortSignal): Promise<EmbeddingResult>;
}

/**
 * How a prompt is divided into pieces, each of which one `prefill` call evaluates. An engine rounds differently in wide
 * and in narrow pieces, so an answer depends on its request alone only if the widths do. `scheduler/prompt-pieces.ts`
 * applies the rule.
 */
export interface PieceRule {
  /** A wide piece has this many tokens, and begins at a multiple of this number; Infinity if there are none. */
  readonly wideTokens: number;
  /** The maximum number of tokens of a narrow piece, which is any piece that is not wide. */
  readonly narrowTokensMax: number;
  /**
   * The engine evaluates the tokens of a piece in groups of this size. It rounds differently for the tokens that do not
   * fill a group, and for a piece of a single token. `wideTokens` and `narrowTokensMax` are multiples of this number.
   * With 1 there are no such differences.
   */
  readonly groupTokens: number;
  /**
   * True if the tokens of a prompt must be evaluated in exactly the same pieces whatever the KV-cache sequence holds,
   * and generated tokens one by one. False if differences in the last digits are acceptable.
   */
  readonly isExact: boolean;
}

export type Token = number;

/**
 * A generation in progress, created by `Runner.start` for that runner only. A stream that is left out of some decoding
 * steps loses nothing: its KV-cache sequence keeps its state until the scheduler suspends it.
 */
export interface TokenStream {
  /** The KV-cache sequence on which the stream runs, or on which it ran last if it is suspended. */
  readonly sequence: number;
  /**
   * Releases the KV-cache sequence between two decoding steps, so that another job can use it; the sequence itself is
   * left unchanged. The stream keeps the state that sampling needs until `resume` or `close`: the grammar's state, the
   * tokens that penalties consider, the bytes of an incomplete code point, and the random state if it can be saved
   * (otherwise sampling continues with another seed).
   */
  suspend(): Promise<void>;
  /**
   * Continues after `suspend`, on any KV-cache sequence. By then the scheduler has used `truncate` and `prefill` to
   * fill that sequence with everything that the stream had evaluated: the prompt and the generated tokens except
   * `last`, the newest one (or the prompt's last token if none was generated). The next decoding step evaluates `last`
   * and returns the token after it. The grammar and the text decoder have seen `last` already and must not process it
   * again.
   */
  resume(sequence: number, last: Token): void;
  /**
   * Ends the stream, suspended or not; the KV-cache sequence keeps the state of every evaluated token. A second call
   * has no effect. The scheduler calls it for each stream, even for one that ended or failed by itself.
   */
  close(): Promise<void>;
}

/**
 * Thrown if a text has more tokens than the model accepts at once. `index` is the position of the text among the texts
 * of that call.
 */
export class TextTooLongError extends Error {
  readonly index: number;
  readonly tokens: number;
  readonly tokensMax: number;

  constructor(index: number, tokens: number, tokensMax: number) {
    super(`text ${index} has ${tokens} tokens, the model accepts ${tokensMax}`);
    this.name = "TextTooLongError";
    this.index = index;
    this.tokens = tokens;
    this.tokensMax = tokensMax;
  }
}

export type StepOutcome =
  | {
      readonly kind: "token";
      readonly token: Token;
      /** The code points that this token completed; "" while bytes of a code point are missing. */
      readonly text: string;
      /** The logprob of the token; present if `Sampling.logprobs` requested it. */
      readonly logprob?: TokenLogprob;
    }
  /**
   * The model has ended its answer. `text` is text that earlier steps held back because bytes of a code point were
   * missing; it is usually "". The token that ended the answer is neither returned nor counted, and is not evaluated.
   */
  | { readonly kind: "end"; readonly text: string }
  | { readonly kind: "failed"; readonly error: unknown };

export interface TokenLogprob {
  readonly text: string;
  /** The UTF-8 bytes of this token alone, which may be only a part of a code point. */
  readonly bytes: readonly number[];
  /** Natural logarithm, 0 or less. */
  readonly logprob: number;
  readonly top: readonly {
    readonly text: string;
    readonly bytes: readonly number[];
    readonly logprob: number;
  }[];
}

export type Prompt =
  /** A chat, which is rendered with the model's own chat template. */
  | {
      readonly kind: "chat";
      readonly messages: readonly ChatMessage[];
      readonly tools: readonly ToolDefinition[];
      /** Additional variables of the template, such as enable_thinking or reasoning_effort. */
      readonly variables: Readonly<Record<string, unknown>>;
    }
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "tokens"; readonly tokens: readonly Token[] };

export interface ChatMessage {
  readonly role: "system" | "developer" | "user" | "assistant" | "tool";
  /** The text of the message. A newline separates the text parts that the client sent. */
  readonly content: string;
  readonly name?: string | undefined;
  readonly toolCalls?: readonly ToolCall[] | undefined;
  readonly toolCallId?: string | undefined;
}

export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** JSON text, unchanged from the model's output. */
  readonly arguments: string;
}

export interface ToolDefinition {
  readonly name: string;
  readonly description?: string | undefined;
  /** A JSON Schema of an object; undefined means no arguments. */
  readonly parameters?: unknown;
}

/**
 * The parameters with which the next token is sampled. A member that is undefined has the default of the model or of
 * the engine.
 */
export interface Sampling {
  /** The temperature; with 0, the most likely token is always chosen. */
  readonly temperature: number;
  readonly topP: number;
  /** The number of likeliest tokens to choose from; with 0, there is no limit. */
  readonly topK: number;
  readonly minP: number;
  readonly seed: number;
  /** The penalty for tokens that have occurred before, as a factor; with 1, there is no penalty. */
  readonly repeatPenalty: number;
  readonly presencePenalty: number;
  readonly frequencyPenalty: number;
  /** Biases by token id, as in OpenAI's API: -100 excludes the token, 100 almost forces it. */
  readonly logitBias: Readonly<Record<string, number>>;
  /** Number of likely alternatives that are returned with each token; undefined means no logprobs. */
  readonly logprobs: number | undefined;
  /** GBNF grammar that the answer must follow; undefined means free text. */
  readonly grammar: string | undefined;
  /** One of the shortest texts that `grammar` accepts, for engines that do not sample. */
  readonly grammarExample: string | undefined;
  /** True if control tokens, such as the markers of tool calls, are to be shown as text. */
  readonly showControlTokens: boolean;
}

export interface EmbeddingResult {
  /** One unit vector for each text. */
  readonly vectors: readonly Float32Array[];
  readonly tokens: readonly number[];
}
