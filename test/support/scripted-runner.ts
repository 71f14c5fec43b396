import { setImmediate as nextTurn } from "node:timers/promises";
import {
  type EmbeddingResult,
  type PieceRule,
  type Prompt,
  type Runner,
  type Sampling,
  type StepOutcome,
  TextTooLongError,
  type Token,
  type TokenStream,
} from "../../src/assistant/inference/runner.ts";
import { type Clock, delay } from "../../src/base/clock.ts";

/** The model's answer to one prompt. */
export interface ScriptedAnswer {
  /** The text of each token. */
  readonly tokens: readonly string[];
  /** The index of the token in whose decoding step the stream of this answer fails. Other streams continue. */
  readonly failAt?: number | undefined;
}

export interface ScriptedRunnerOptions {
  readonly clock: Clock;
  /**
   * Returns the answer to a prompt; a chat is passed as lines `role: content`. By default, the answer is a sentence
   * about the prompt.
   */
  readonly script?: (prompt: string) => ScriptedAnswer;
  readonly sequences?: number;
  readonly contextTokens?: number;
  /**
   * The maximum number of tokens in one piece of a prompt. It is used if `pieces` is missing, and then all pieces are
   * of the same kind.
   */
  readonly prefillTokensMax?: number;
  readonly pieces?: PieceRule;
  readonly embeddingLength?: number;
  /** The milliseconds of `clock` that a call of `encode` takes; 0, the default, is one turn of the event loop. */
  readonly encodeMs?: number;
  readonly stepMs?: number;
  readonly prefillMs?: number;
  readonly embedMs?: number;
  /**
   * Returns the number of tokens that `truncate` keeps. Models whose state cannot be cut keep fewer tokens than
   * requested.
   */
  readonly keeps?: (length: number) => number;
}

type CallKind = "encode" | "truncate" | "prefill" | "step" | "embed" | "suspend" | "close";

/** One recorded call of the runner. */
export interface ScriptedCall {
  readonly kind: CallKind;
  readonly at: number;
  /** The prompts of the call's streams: all streams of a step, or the one stream that is suspended or closed. */
  readonly prompts: readonly string[];
  /** The number of tokens that were prefilled, or of texts that were embedded. */
  readonly count: number;
  readonly sequences: readonly number[];
}

/**
 * A runner whose answers the test defines. It tracks the state of each sequence, checks that every call matches it, and
 * records violations of the contract in `problems`.
 */
export class ScriptedRunner implements Runner {
  readonly sequences: number;
  readonly contextTokens: number;
  readonly pieces: PieceRule;
  readonly calls: ScriptedCall[] = [];
  readonly problems: string[] = [];
  disposed = false;

  readonly #options: ScriptedRunnerOptions;
  readonly #sequenceTokens: Token[][];
  readonly #open = new Map<number, ScriptedStream>();
  readonly #gates = new Map<CallKind, Promise<void>>();
  readonly #breaks = new Map<CallKind, unknown>();
  readonly #crash = new AbortController();
  #busy: CallKind | undefined;
  #streams = 0;

  constructor(options: ScriptedRunnerOptions) {
    this.#options = options;
    this.sequences = options.sequences ?? 4;
    this.contextTokens = options.contextTokens ?? 256;
    this.pieces = options.pieces ?? {
      wideTokens: Number.POSITIVE_INFINITY,
      narrowTokensMax: options.prefillTokensMax ?? 16,
      groupTokens: 1,
      isExact: false,
    };
    this.#sequenceTokens = Array.from({ length: this.sequences }, () => []);
  }

  /** The number of streams that have not been closed. */
  get openStreams(): number {
    return this.#streams;
  }

  /** The kind of the runner call that is in progress, which includes a call that `gate` holds back. */
  get busy(): CallKind | undefined {
    return this.#busy;
  }

  /** Holds back calls of `kind` until the returned function is called. */
  gate(kind: CallKind): () => void {
    let open: (() => void) | undefined;
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    this.#gates.set(kind, gate);
    return () => {
      if (this.#gates.get(kind) === gate) this.#gates.delete(kind);
      open?.();
    };
  }

  /** Makes the next runner call of `kind` reject with `error`. */
  breakNext(kind: CallKind, error: unknown): void {
    this.#breaks.set(kind, error);
  }

  /** Makes every runner call reject, including the call in progress. */
  crash(): void {
    this.#crash.abort(new Error("crashed by the test"));
  }

  async encode(prompt: Prompt): Promise<readonly Token[]> {
    await this.#simulateDuration("encode", this.#options.encodeMs ?? 0);
    return prompt.kind === "tokens" ? prompt.tokens : Array.from(renderPrompt(prompt), toToken);
  }

  async truncate(sequence: number, length: number): Promise<number> {
    return this.#recordCall({ kind: "truncate", sequences: [sequence] }, 0, () => {
      this.#checkIdle(sequence, "truncate");
      const held = this.#sequence(sequence);
      const wanted = Math.min(length, held.length);
      held.length = Math.min(wanted, this.#options.keeps?.(wanted) ?? wanted);
      return held.length;
    });
  }

  async prefill(sequence: number, tokens: readonly Token[]): Promise<void> {
    const call = { kind: "prefill", sequences: [sequence], count: tokens.length } as const;
    await this.#recordCall(call, this.#options.prefillMs ?? 0, () => {
      this.#checkIdle(sequence, "prefill");
      const { wideTokens, narrowTokensMax } = this.pieces;
      if (tokens.length < 1 || (tokens.length > narrowTokensMax && tokens.length !== wideTokens))
        this.problems.push(`a prefill of ${tokens.length} tokens`);
      this.#evaluate(sequence, tokens);
    });
  }

  start(sequence: number, last: Token, sampling: Sampling): TokenStream {
    this.#checkNotBusy("start");
    this.#checkIdle(sequence, "start");
    this.#crash.signal.throwIfAborted();
    const prompt = [...this.#sequence(sequence), last];
    const text = prompt.map(toPiece).join("");
    const stream = new ScriptedStream({
      owner: this,
      sequence,
      prompt,
      promptText: text,
      script: this.#getAnswer(text, sampling),
      logprobs: sampling.logprobs,
    });
    this.#open.set(sequence, stream);
    this.#streams += 1;
    return stream;
  }

  async step(streams: readonly TokenStream[]): Promise<readonly StepOutcome[]> {
    const ours = streams.filter((stream) => stream instanceof ScriptedStream);
    const call = {
      kind: "step",
      sequences: ours.map((stream) => stream.sequence),
      prompts: ours.map((stream) => stream.promptText),
    } as const;
    return this.#recordCall(call, this.#options.stepMs ?? 0, () => {
      this.#checkStep(ours);
      return ours.map((stream) => {
        const last = stream.tokens.at(-1) ?? 0;
        this.#evaluate(stream.sequence, [last]);
        return stream.next();
      });
    });
  }

  async embed(texts: readonly string[], signal: AbortSignal): Promise<EmbeddingResult> {
    const duration = (this.#options.embedMs ?? 0) * texts.length;
    const act = () => {
      signal.throwIfAborted();
      const tooLong = texts.findIndex((text) => text.length > this.contextTokens);
      if (tooLong !== -1)
        throw new TextTooLongError(tooLong, texts[tooLong]?.length ?? 0, this.contextTokens);
      const length = this.#options.embeddingLength ?? 8;
      const vectors = texts.map((text) => {
        const vector = new Float32Array(length);
        vector[Array.from(text, toToken).reduce((sum, token) => sum + token, 0) % length] = 1;
        return vector;
      });
      return { vectors, tokens: texts.map((text) => text.length) };
    };
    return this.#recordCall({ kind: "embed", count: texts.length }, duration, act, signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#busy) this.problems.push(`disposed during ${this.#busy}`);
    this.disposed = true;
  }

  async suspend(stream: ScriptedStream): Promise<void> {
    const prompts = [stream.promptText];
    await this.#recordCall({ kind: "suspend", sequences: [stream.sequence], prompts }, 0, () => {
      if (this.#open.get(stream.sequence) !== stream)
        this.problems.push("suspended what is not open");
      this.#open.delete(stream.sequence);
    });
  }

  resume(stream: ScriptedStream, sequence: number, last: Token): void {
    this.#checkNotBusy("resume");
    this.#checkIdle(sequence, "resume");
    if (!isSame([...this.#sequence(sequence), last], stream.tokens))
      this.problems.push(`resumed on other tokens than its own: ${stream.promptText}`);
    this.#open.set(sequence, stream);
  }

  async close(stream: ScriptedStream): Promise<void> {
    const prompts = [stream.promptText];
    await this.#recordCall({ kind: "close", sequences: [stream.sequence], prompts }, 0, () => {
      if (this.#open.get(stream.sequence) === stream) this.#open.delete(stream.sequence);
      this.#streams -= 1;
    });
  }

  #getAnswer(prompt: string, sampling: Sampling): ScriptedAnswer {
    if (sampling.grammar !== undefined)
      return { tokens: Array.from(sampling.grammarExample ?? "") };
    return this.#options.script?.(prompt) ?? { tokens: splitWords(`You said: ${prompt}`) };
  }

  #checkStep(streams: readonly ScriptedStream[]): void {
    if (streams.length === 0) this.problems.push("a step of nobody");
    for (const [at, stream] of streams.entries()) {
      const before = streams[at - 1];
      if (before && before.sequence >= stream.sequence)
        this.problems.push("streams out of the order of their sequences");
      if (this.#open.get(stream.sequence) !== stream)
        this.problems.push(`a step of a stream that is not open: ${stream.promptText}`);
      if (!isSame(this.#sequence(stream.sequence), stream.tokens.slice(0, -1)))
        this.problems.push(`a step on other tokens than its own: ${stream.promptText}`);
    }
  }

  #evaluate(sequence: number, tokens: readonly Token[]): void {
    const held = this.#sequence(sequence);
    held.push(...tokens);
    if (held.length > this.contextTokens) this.problems.push("more tokens than the context holds");
  }

  #checkIdle(sequence: number, what: string): void {
    if (this.#open.has(sequence)) this.problems.push(`${what} on a sequence that has a stream`);
  }

  #checkNotBusy(what: string): void {
    if (this.#busy) this.problems.push(`${what} during ${this.#busy}`);
  }

  async #recordCall<T>(
    call: { readonly kind: CallKind } & Partial<ScriptedCall>,
    tookMs: number,
    act: () => T,
    signal?: AbortSignal,
  ): Promise<T> {
    this.#checkNotBusy(call.kind);
    if (this.disposed) this.problems.push(`${call.kind} after the end`);
    this.#busy = call.kind;
    const at = this.#options.clock.now();
    this.calls.push({ prompts: [], count: 0, sequences: [], at, ...call });
    try {
      await this.#simulateDuration(call.kind, tookMs, signal);
      return act();
    } finally {
      this.#busy = undefined;
    }
  }

  /**
   * Waits until `gate` lets a call of this kind continue, and then for `tookMs`. Throws the error that `breakNext` has
   * set for this kind.
   */
  async #simulateDuration(kind: CallKind, tookMs: number, signal?: AbortSignal): Promise<void> {
    const crash = this.#crash.signal;
    crash.throwIfAborted();
    const gate = this.#gates.get(kind);
    if (gate) await Promise.race([gate, rejectsOn(crash)]);
    const ending = signal ? AbortSignal.any([signal, crash]) : crash;
    if (tookMs > 0) await delay(this.#options.clock, tookMs, ending);
    else if (kind === "step" || kind === "prefill" || kind === "embed") await nextTurn();
    crash.throwIfAborted();
    if (!this.#breaks.has(kind)) return;
    const error = this.#breaks.get(kind);
    this.#breaks.delete(kind);
    throw error;
  }

  #sequence(number: number): Token[] {
    const held = this.#sequenceTokens[number];
    if (!held) throw new RangeError(`there is no KV-cache sequence ${number}`);
    return held;
  }
}

class ScriptedStream implements TokenStream {
  readonly promptText: string;
  /** The tokens of the prompt and the answer; the last token is not evaluated yet. */
  readonly tokens: Token[];
  sequence: number;
  #givenTokens = 0;
  #closed = false;
  readonly #owner: ScriptedRunner;
  readonly #script: ScriptedAnswer;
  readonly #logprobs: number | undefined;

  constructor(options: {
    readonly owner: ScriptedRunner;
    readonly sequence: number;
    readonly prompt: readonly Token[];
    readonly promptText: string;
    readonly script: ScriptedAnswer;
    readonly logprobs: number | undefined;
  }) {
    this.#owner = options.owner;
    this.sequence = options.sequence;
    this.tokens = [...options.prompt];
    this.promptText = options.promptText;
    this.#script = options.script;
    this.#logprobs = options.logprobs;
  }

  next(): StepOutcome {
    if (this.#givenTokens === this.#script.failAt)
      return { kind: "failed", error: new Error("failed by the script") };
    const text = this.#script.tokens[this.#givenTokens];
    if (text === undefined) return { kind: "end", text: "" };
    this.#givenTokens += 1;
    const token = toToken(text);
    this.tokens.push(token);
    if (this.#logprobs === undefined) return { kind: "token", token, text };
    const spelled = { text, bytes: [...Buffer.from(text)], logprob: -0.5 };
    const top = Array.from({ length: this.#logprobs }, () => spelled);
    return { kind: "token", token, text, logprob: { ...spelled, top } };
  }

  async suspend(): Promise<void> {
    await this.#owner.suspend(this);
  }

  resume(sequence: number, last: Token): void {
    this.#owner.resume(this, sequence, last);
    this.sequence = sequence;
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#owner.close(this);
  }
}

/** Splits a text into tokens: words, each with the blank before it. */
export function splitWords(text: string): string[] {
  return text.match(/\s?\S+|\s/g) ?? [];
}

/** The token of each text longer than one character. The token of a single character is the character's code point. */
const longTokens = new Map<string, Token>();
const longPieces = new Map<Token, string>();
const FIRST_LONG = 0x110000;

function toToken(piece: string): Token {
  const first = piece.codePointAt(0);
  if (first !== undefined && piece === String.fromCodePoint(first)) return first;
  const known = longTokens.get(piece);
  if (known !== undefined) return known;
  const token = FIRST_LONG + longTokens.size;
  longTokens.set(piece, token);
  longPieces.set(token, piece);
  return token;
}

function toPiece(token: Token): string {
  return token < FIRST_LONG ? String.fromCodePoint(token) : (longPieces.get(token) ?? "");
}

function renderPrompt(prompt: Exclude<Prompt, { kind: "tokens" }>): string {
  if (prompt.kind === "text") return prompt.text;
  return prompt.messages.map(({ role, content }) => `${role}: ${content}\n`).join("");
}

function isSame(one: readonly Token[], other: readonly Token[]): boolean {
  return one.length === other.length && one.every((token, at) => token === other[at]);
}

function rejectsOn(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}
