import { setImmediate as nextTurn } from "node:timers/promises";
import {
  type ChatMessage,
  type EmbeddingResult,
  type PieceRule,
  type Prompt,
  type Runner,
  type Sampling,
  type StepOutcome,
  TextTooLongError,
  type Token,
  type TokenStream,
  type ToolDefinition,
} from "../runner.ts";
import { embedText, generateAnswer, splitPieces, toToken } from "./stub-text.ts";

export interface StubRunnerOptions {
  readonly sequences: number;
  readonly contextTokens: number;
  readonly embeddingLength: number;
}

/**
 * Answers at once without a model. The answer depends on the prompt. If the request has a grammar, the answer is the
 * grammar's example text.
 */
export class StubRunner implements Runner {
  readonly sequences: number;
  readonly contextTokens: number;
  readonly pieces: PieceRule = {
    wideTokens: Number.POSITIVE_INFINITY,
    narrowTokensMax: 128,
    groupTokens: 1,
    isExact: false,
  };
  readonly #embeddingLength: number;
  /** The tokens that each KV-cache sequence holds. */
  readonly #sequenceTokens: Token[][];

  constructor(options: StubRunnerOptions) {
    this.sequences = options.sequences;
    this.contextTokens = options.contextTokens;
    this.#embeddingLength = options.embeddingLength;
    this.#sequenceTokens = Array.from({ length: options.sequences }, () => []);
  }

  async encode(prompt: Prompt): Promise<readonly Token[]> {
    if (prompt.kind === "tokens") return prompt.tokens;
    const text = prompt.kind === "text" ? prompt.text : renderPrompt(prompt.messages, prompt.tools);
    return splitPieces(text).map(toToken);
  }

  async truncate(sequence: number, length: number): Promise<number> {
    const held = this.#getSequence(sequence);
    held.length = Math.min(held.length, length);
    return held.length;
  }

  async prefill(sequence: number, tokens: readonly Token[]): Promise<void> {
    this.#getSequence(sequence).push(...tokens);
    await nextTurn();
  }

  start(sequence: number, last: Token, sampling: Sampling): TokenStream {
    const text =
      sampling.grammar === undefined
        ? generateAnswer([...this.#getSequence(sequence), last])
        : sampling.grammarExample;
    return new StubStream({ sequence, last, text, logprobs: sampling.logprobs });
  }

  async step(streams: readonly TokenStream[]): Promise<readonly StepOutcome[]> {
    await nextTurn();
    return streams.map((stream) => {
      if (!(stream instanceof StubStream))
        throw new TypeError("the stream belongs to another runner");
      this.#getSequence(stream.sequence).push(stream.last);
      return stream.next();
    });
  }

  async embed(texts: readonly string[], signal: AbortSignal): Promise<EmbeddingResult> {
    await nextTurn();
    signal.throwIfAborted();
    const tokens = texts.map((text) => splitPieces(text).length);
    const tooLong = tokens.findIndex((count) => count > this.contextTokens);
    if (tooLong !== -1)
      throw new TextTooLongError(tooLong, tokens[tooLong] ?? 0, this.contextTokens);
    return { vectors: texts.map((text) => embedText(text, this.#embeddingLength)), tokens };
  }

  async [Symbol.asyncDispose](): Promise<void> {}

  #getSequence(number: number): Token[] {
    const held = this.#sequenceTokens[number];
    if (!held) throw new RangeError(`there is no KV-cache sequence ${number}`);
    return held;
  }
}

/** A stream whose state is a position in a fixed text, so that a suspension loses nothing. */
class StubStream implements TokenStream {
  #sequence: number;
  #last: Token;
  #position = 0;
  readonly #pieces: readonly string[] | undefined;
  readonly #logprobs: number | undefined;

  constructor(options: {
    readonly sequence: number;
    readonly last: Token;
    readonly text: string | undefined;
    readonly logprobs: number | undefined;
  }) {
    this.#sequence = options.sequence;
    this.#last = options.last;
    this.#pieces = options.text === undefined ? undefined : splitPieces(options.text);
    this.#logprobs = options.logprobs;
  }

  get sequence(): number {
    return this.#sequence;
  }

  /** The token that the next decoding step evaluates. */
  get last(): Token {
    return this.#last;
  }

  next(): StepOutcome {
    if (!this.#pieces) {
      const error = new Error(
        "the stub engine cannot answer: the request has a grammar, but no example text for it",
      );
      return { kind: "failed", error };
    }
    const text = this.#pieces[this.#position];
    if (text === undefined) return { kind: "end", text: "" };
    this.#position += 1;
    this.#last = toToken(text);
    const token = { kind: "token", token: this.#last, text } as const;
    if (this.#logprobs === undefined) return token;
    const certain = { text, bytes: [...Buffer.from(text)], logprob: 0 };
    return { ...token, logprob: { ...certain, top: this.#logprobs > 0 ? [certain] : [] } };
  }

  async suspend(): Promise<void> {}

  resume(sequence: number, last: Token): void {
    this.#sequence = sequence;
    this.#last = last;
  }

  async close(): Promise<void> {}
}

function renderPrompt(messages: readonly ChatMessage[], tools: readonly ToolDefinition[]): string {
  const turns = messages.map((message) => {
    const calls = message.toolCalls ? JSON.stringify(message.toolCalls) : "";
    return `<${message.role}> ${message.content}${calls}\n`;
  });
  const offered = tools.length > 0 ? `<tools> ${JSON.stringify(tools)}\n` : "";
  return `${offered}${turns.join("")}<assistant>`;
}
