/**
 * One loaded model as the scheduler drives it: sequences with state, filled in chunks and stepped
 * together. Adapters: llama.cpp (in a process of its own), the stub, and what tests script. A runner is
 * driven by one scheduler, which never calls two of its methods that touch sequences at once.
 */
export interface Runner extends AsyncDisposable {
  /** How many sequences hold state at a time; they are numbered from 0. */
  readonly sequences: number;
  /** What one sequence holds at most, prompt and answer together, in tokens. */
  readonly contextTokens: number;
  /** What one call of `prefill` takes at most, in tokens: between two calls others get their step. */
  readonly prefillTokensMax: number;

  /** The tokens of a prompt. Rejects with AssistantError `invalid_request` where a template refuses it. */
  encode(prompt: Prompt): Promise<readonly Token[]>;

  /**
   * Erases what the sequence holds beyond its first `length` tokens. Resolves to how many are kept: a
   * model whose state cannot be cut there keeps fewer, down to 0.
   */
  truncate(sequence: number, length: number): Promise<number>;

  /** Evaluates tokens on top of what the sequence holds, 1 to `prefillTokensMax` of them; no answer. */
  prefill(sequence: number, tokens: readonly Token[]): Promise<void>;

  /**
   * Begins to generate on a sequence. `last` is the one token of the prompt that was not prefilled; the
   * first step evaluates it. Nothing is evaluated before that. What it throws ends this job alone.
   */
  start(sequence: number, last: Token, sampling: Sampling): TokenStream;

  /**
   * One token for each stream, evaluated together as one batch; streams in the order of their
   * sequences. The outcomes are in the same order, and come in a later turn of the event loop: a caller
   * that steps without end starves nobody. A stream that fails fails alone; a rejection means
   * that the whole model is broken.
   */
  step(streams: readonly TokenStream[]): Promise<readonly StepOutcome[]>;

  /**
   * Unit vectors and how many tokens each text had; an abort ends it between texts. Rejects with
   * TextTooLongError, and has to stay usable then. Touches no sequence; the scheduler calls it between
   * steps and never twice at once, with few texts at a time where a generation waits.
   */
  embed(texts: readonly string[], signal: AbortSignal): Promise<EmbeddingResult>;
}

export type Token = number;

/**
 * A generation under way; made by `Runner.start`, of no use to another runner. A stream that is left out
 * of steps for a while loses nothing: its sequence stays as it is until the scheduler suspends it.
 */
export interface TokenStream {
  /** Where it evaluates; while it is suspended, where it did so last. */
  readonly sequence: number;
  /**
   * Lets go of the sequence between two steps, so that another job can have it; the sequence itself is
   * left as it is. What chooses the next token stays with the stream until `resume` or `close`: the
   * state of the grammar, the tokens that penalties look at, the bytes of an unfinished code point, and
   * the state of the random numbers where it can be kept (else they go on from another seed).
   */
  suspend(): Promise<void>;
  /**
   * Goes on after `suspend`, on any sequence, which by `truncate` and `prefill` holds everything the
   * stream had evaluated: the prompt and the tokens it gave, all but `last`, the newest of them (of the
   * prompt, where it gave none). The next step evaluates `last` and gives the token after it. Neither
   * the grammar nor the text decoder may take `last` a second time: they have seen it.
   */
  resume(sequence: number, last: Token): void;
  /**
   * Ends it, suspended or not; the sequence keeps the state of every token that was evaluated. Safe to
   * call twice. Called for each stream, also one that ended or failed by itself.
   */
  close(): Promise<void>;
}

/** A text has more tokens than the model takes at once; `index` is its place among those of that call. */
export class TextTooLongError extends Error {
  readonly index: number;
  readonly tokens: number;
  readonly tokensMax: number;

  constructor(index: number, tokens: number, tokensMax: number) {
    super(`text ${index} has ${tokens} tokens, the model takes ${tokensMax}`);
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
      /** Whole code points that became certain with this token; "" while bytes of one are missing. */
      readonly text: string;
      /** Where `Sampling.logprobs` asked for it. */
      readonly logprob?: TokenLogprob;
    }
  /**
   * The model has ended its answer; `text` is what was held back, mostly "". The token that ended it is
   * neither told nor counted, and is not evaluated.
   */
  | { readonly kind: "end"; readonly text: string }
  | { readonly kind: "failed"; readonly error: unknown };

export interface TokenLogprob {
  readonly text: string;
  /** UTF-8 of this token alone, which may be part of a code point. */
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
  /** Rendered with the model's own chat template. */
  | {
      readonly kind: "chat";
      readonly messages: readonly ChatMessage[];
      readonly tools: readonly ToolDefinition[];
      /** Further variables of the template, such as enable_thinking or reasoning_effort. */
      readonly variables: Readonly<Record<string, unknown>>;
    }
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "tokens"; readonly tokens: readonly Token[] };

export interface ChatMessage {
  readonly role: "system" | "developer" | "user" | "assistant" | "tool";
  /** Content parts are joined already. */
  readonly content: string;
  readonly name?: string | undefined;
  readonly toolCalls?: readonly ToolCall[] | undefined;
  readonly toolCallId?: string | undefined;
}

export interface ToolCall {
  readonly id: string;
  readonly name: string;
  /** JSON text, as the model wrote it. */
  readonly arguments: string;
}

export interface ToolDefinition {
  readonly name: string;
  readonly description?: string | undefined;
  /** A JSON Schema of an object; undefined: no arguments. */
  readonly parameters?: unknown;
}

/** How the next token is chosen. Undefined: the model's, or the engine's, default. */
export interface Sampling {
  /** 0: always the likeliest token. */
  readonly temperature: number;
  readonly topP: number;
  /** 0: all. */
  readonly topK: number;
  readonly minP: number;
  readonly seed: number;
  /** 1: none. */
  readonly repeatPenalty: number;
  readonly presencePenalty: number;
  readonly frequencyPenalty: number;
  /** Token to bias, as OpenAI has it: -100 bans, 100 all but forces. */
  readonly logitBias: Readonly<Record<string, number>>;
  /** How many likely tokens are told beside the chosen one; undefined: no logprobs at all. */
  readonly logprobs: number | undefined;
  /** GBNF that the answer has to follow; undefined: free text. */
  readonly grammar: string | undefined;
  /** A shortest text of that grammar, for engines that do not sample. */
  readonly grammarExample: string | undefined;
  /** Whether control tokens show as text, as markers of tool calls do. */
  readonly showControlTokens: boolean;
}

export interface EmbeddingResult {
  /** One for each text, of length 1. */
  readonly vectors: readonly Float32Array[];
  readonly tokens: readonly number[];
}
