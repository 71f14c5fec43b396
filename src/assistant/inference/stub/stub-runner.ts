import { setImmediate as nextTurn } from "node:timers/promises";
import {
  type ChatMessage,
  type Embedded,
  type Prompt,
  type Runner,
  type Sampling,
  type StepOutcome,
  type Stream,
  TextTooLongError,
  type Token,
  type ToolDefinition,
} from "../runner.ts";
import { answerTo, embed, pieces, tokenOf } from "./stub-text.ts";

export interface StubRunnerOptions {
  readonly sequences: number;
  readonly contextTokens: number;
  readonly embeddingLength: number;
}

/** Computes nothing and is done at once. Each answer follows from its prompt, or is the grammar's example. */
export class StubRunner implements Runner {
  readonly sequences: number;
  readonly contextTokens: number;
  readonly prefillTokensMax = 128;
  readonly #embeddingLength: number;
  /** What each sequence holds. */
  readonly #held: Token[][];

  constructor(options: StubRunnerOptions) {
    this.sequences = options.sequences;
    this.contextTokens = options.contextTokens;
    this.#embeddingLength = options.embeddingLength;
    this.#held = Array.from({ length: options.sequences }, () => []);
  }

  async encode(prompt: Prompt): Promise<readonly Token[]> {
    if (prompt.kind === "tokens") return prompt.tokens;
    const text = prompt.kind === "text" ? prompt.text : rendered(prompt.messages, prompt.tools);
    return pieces(text).map(tokenOf);
  }

  async truncate(sequence: number, length: number): Promise<number> {
    const held = this.#sequence(sequence);
    held.length = Math.min(held.length, length);
    return held.length;
  }

  async prefill(sequence: number, tokens: readonly Token[]): Promise<void> {
    this.#sequence(sequence).push(...tokens);
    await nextTurn();
  }

  start(sequence: number, last: Token, sampling: Sampling): Stream {
    const text =
      sampling.grammar === undefined
        ? answerTo([...this.#sequence(sequence), last])
        : sampling.grammarExample;
    return new StubStream({ sequence, last, text, logprobs: sampling.logprobs });
  }

  async step(streams: readonly Stream[]): Promise<readonly StepOutcome[]> {
    await nextTurn();
    return streams.map((stream) => {
      if (!(stream instanceof StubStream)) throw new TypeError("a stream of another runner");
      this.#sequence(stream.sequence).push(stream.last);
      return stream.next();
    });
  }

  async embed(texts: readonly string[], signal: AbortSignal): Promise<Embedded> {
    await nextTurn();
    signal.throwIfAborted();
    const tokens = texts.map((text) => pieces(text).length);
    const tooLong = tokens.findIndex((count) => count > this.contextTokens);
    if (tooLong !== -1)
      throw new TextTooLongError(tooLong, tokens[tooLong] ?? 0, this.contextTokens);
    return { vectors: texts.map((text) => embed(text, this.#embeddingLength)), tokens };
  }

  async [Symbol.asyncDispose](): Promise<void> {}

  #sequence(number: number): Token[] {
    const held = this.#held[number];
    if (!held) throw new RangeError(`there is no sequence ${number}`);
    return held;
  }
}

/** Its state is how far it has come in its text, so letting go of a sequence loses nothing. */
class StubStream implements Stream {
  #sequence: number;
  #last: Token;
  #at = 0;
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
    this.#pieces = options.text === undefined ? undefined : pieces(options.text);
    this.#logprobs = options.logprobs;
  }

  get sequence(): number {
    return this.#sequence;
  }

  /** What the next step evaluates. */
  get last(): Token {
    return this.#last;
  }

  next(): StepOutcome {
    if (!this.#pieces) {
      const error = new Error("the stub follows a grammar only by its example, and there is none");
      return { kind: "failed", error };
    }
    const text = this.#pieces[this.#at];
    if (text === undefined) return { kind: "end", text: "" };
    this.#at += 1;
    this.#last = tokenOf(text);
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

function rendered(messages: readonly ChatMessage[], tools: readonly ToolDefinition[]): string {
  const turns = messages.map((message) => {
    const calls = message.toolCalls ? JSON.stringify(message.toolCalls) : "";
    return `<${message.role}> ${message.content}${calls}\n`;
  });
  const offered = tools.length > 0 ? `<tools> ${JSON.stringify(tools)}\n` : "";
  return `${offered}${turns.join("")}<assistant>`;
}
