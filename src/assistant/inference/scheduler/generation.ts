import type { GenerateJob, RequestPriority } from "../inference-engine.ts";
import type { Prompt, Sampling, StepOutcome, Token, TokenStream } from "../runner.ts";
import { AnswerTextBuffer, type EmittedText } from "./answer-text-buffer.ts";
import { EventQueue, type EventQueueListener } from "./event-queue.ts";
import { engineFailedError } from "./scheduler-errors.ts";
import type { SequenceSlot } from "./sequence-slot.ts";

/** A KV-cache sequence of the runner that a generation can own. */
export type GenerationSlot = SequenceSlot<Generation>;

/**
 * One answer in progress, from the request to the end. It passes through these states:
 *
 * 1. encoding: the prompt is converted to tokens.
 * 2. waiting: the generation needs a free KV-cache sequence.
 * 3. assigned: the generation owns a KV-cache sequence, in which the prompt is evaluated and then tokens are decoded.
 *    If another generation takes the sequence, this generation returns to state 2; a generation whose reader is stalled
 *    does so when the reader has caught up.
 * 4. over: the answer is complete, cancelled or failed. Every state can change to this one.
 *
 * A generation that takes no part in a decoding step keeps its KV-cache sequence and its stream. The scheduler changes
 * the states; this class holds the request and the answer.
 */
export class Generation {
  /** A number that grows in the order of arrival. */
  readonly order: number;
  readonly prompt: Prompt;
  readonly priority: RequestPriority;
  readonly sampling: Sampling;
  readonly events: EventQueue;
  /** The KV-cache sequence that the generation owns; undefined if it has none. */
  slot: GenerationSlot | undefined;
  /**
   * The token stream. It exists from the first decoding step to the end, even while the generation has no KV-cache
   * sequence.
   */
  stream: TokenStream | undefined;
  isOver = false;
  /** The number of times that interactive jobs overtook this generation; see WaitingQueue. */
  overtakenCount = 0;
  /** The generation is not evicted before its answer has this many tokens. */
  protectedTokens = 0;
  /** True while the stream is suspended because the KV-cache sequence was taken away. */
  isSuspended = false;
  /** The number of the last decoding step in which the generation took part; 0 if it took part in none. */
  steppedAt = 0;
  /** The time of the scheduler's clock at which the event queue became full; undefined if the queue is not full. */
  eventsFullSince: number | undefined;

  readonly #maxTokens: number;
  readonly #text: AnswerTextBuffer;
  #tokens: Token[] = [];
  /** Tokens of the answer that are generated again, and that were emitted before; see `restart`. */
  #repeated: readonly Token[] = [];
  #promptTokens = 0;
  #answerTokensMax = 0;
  #cachedTokens: number | undefined;
  /** 1 if the model has generated the token that ends an answer; it has no text, but counts as OpenAI counts it. */
  #endTokens = 0;
  #isStarted = false;

  constructor(order: number, job: GenerateJob, owner: EventQueueListener) {
    this.order = order;
    this.prompt = job.prompt;
    this.priority = job.priority;
    this.sampling = job.sampling;
    this.events = new EventQueue(owner);
    this.#maxTokens = job.maxTokens ?? Number.POSITIVE_INFINITY;
    this.#text = new AnswerTextBuffer(job.stop);
  }

  /**
   * Sets the prompt's tokens, which must be fewer than the context holds. Returns false if the answer may have no
   * tokens, because the request sets its maximum to 0: the generation has then ended.
   */
  setPromptTokens(tokens: readonly Token[], contextTokens: number): boolean {
    this.#tokens = [...tokens];
    this.#promptTokens = tokens.length;
    this.#answerTokensMax = Math.min(this.#maxTokens, contextTokens - tokens.length);
    if (this.#answerTokensMax > 0) return true;
    this.emitStarted();
    this.#endAt("length");
    return false;
  }

  /**
   * The prompt and the answer so far. The next decoding step evaluates the last token; all other tokens must be
   * evaluated before that step.
   */
  get tokens(): readonly Token[] {
    return this.#tokens;
  }

  /** The newest token; the prompt has at least one. */
  get lastToken(): Token {
    return this.#tokens[this.#tokens.length - 1] ?? 0;
  }

  get promptTokens(): number {
    return this.#promptTokens;
  }

  /** The number of generated tokens, including those that are being generated again. */
  get completionTokens(): number {
    return Math.max(this.#tokens.length - this.#promptTokens, this.#repeated.length);
  }

  /**
   * Assigns a KV-cache sequence that holds the first `keptTokens` tokens. The count of the first assignment is reported
   * as the prompt's cached tokens.
   */
  assignSlot(slot: GenerationSlot, keptTokens: number): void {
    this.slot = slot;
    this.#cachedTokens ??= keptTokens;
  }

  /**
   * Begins again with the prompt, because the model repeats an answer exactly only if it generates all of it. Tokens
   * that were emitted before are not emitted again.
   */
  restart(): void {
    if (this.#tokens.length - this.#promptTokens > this.#repeated.length)
      this.#repeated = this.#tokens.slice(this.#promptTokens);
    this.#tokens.length = this.#promptTokens;
  }

  /** The number of tokens that must be evaluated before the next decoding step. */
  get unreadTokens(): number {
    return this.#tokens.length - 1 - (this.slot?.length ?? 0);
  }

  /** The number of tokens of the next piece that must be prefilled; 0 if there is none. */
  get nextPieceTokens(): number {
    return this.slot?.countNextPiece(this) ?? 0;
  }

  /**
   * Emits `started` only at the first call, because a generation that has lost its KV-cache sequence evaluates its
   * prompt again.
   */
  emitStarted(): void {
    if (this.#isStarted) return;
    this.#isStarted = true;
    const cachedTokens = this.#cachedTokens ?? 0;
    this.events.push({ type: "started", promptTokens: this.#promptTokens, cachedTokens });
  }

  /** Emits the outcome of a decoding step. Returns true if the answer has ended. */
  accept(outcome: Exclude<StepOutcome, { kind: "failed" }>): boolean {
    const repeated = this.#repeated[this.#tokens.length - this.#promptTokens];
    if (repeated !== undefined) {
      if (outcome.kind === "token" && outcome.token === repeated) {
        this.#tokens.push(repeated);
        return false;
      }
      this.events.fail(
        engineFailedError(
          new Error(
            "the model, which had to repeat its answer from the start, generated a different one",
          ),
        ),
      );
      return true;
    }
    if (outcome.kind === "token") this.#tokens.push(outcome.token);
    const logprob = outcome.kind === "token" ? outcome.logprob : undefined;
    const emitted = this.#text.push(outcome.text, logprob);
    this.#emitText(emitted);
    if (outcome.kind === "end") this.#endTokens = 1;
    if (emitted.stopped) this.#end("stop");
    else if (outcome.kind === "end") this.#endAt("stop");
    else if (this.completionTokens >= this.#answerTokensMax) this.#endAt("length");
    else return false;
    return true;
  }

  /** Ends the answer. The text that was held back is emitted, because it has not become a stop text. */
  #endAt(reason: "stop" | "length"): void {
    this.#emitText(this.#text.flush());
    this.#end(reason);
  }

  #emitText({ text, logprobs }: EmittedText): void {
    if (logprobs) this.events.push({ type: "text", text, logprobs });
    else if (text !== "") this.events.push({ type: "text", text });
  }

  #end(reason: "stop" | "length"): void {
    const completionTokens = this.completionTokens + this.#endTokens;
    this.events.push({ type: "end", reason, completionTokens });
    this.events.end();
  }
}
