import type { GenerateJob, RequestPriority } from "../inference-engine.ts";
import type { Prompt, Sampling, StepOutcome, Token, TokenStream } from "../runner.ts";
import { AnswerTextBuffer, type EmittedText } from "./answer-text-buffer.ts";
import { EventQueue, type EventQueueListener } from "./event-queue.ts";
import type { SequenceSlot } from "./sequence-slot.ts";

/** A sequence of the runner, as generations sit on it. */
export type GenerationSlot = SequenceSlot<Generation>;

/**
 * One answer that is being made, from the arrival to the end:
 *
 *   encoding -> waiting -> seated (prefill, then steps) -> over
 *                  ^          |  evicted, or does not read
 *                  +----------+
 *
 * A seated one that is left out of steps, or whose reader is slow, keeps its sequence and its stream.
 * Every state may go to over. The scheduler moves it; this file knows what was asked and what was said.
 */
export class Generation {
  /** By arrival. */
  readonly order: number;
  readonly prompt: Prompt;
  readonly priority: RequestPriority;
  readonly sampling: Sampling;
  readonly events: EventQueue;
  /** What it sits on. */
  slot: GenerationSlot | undefined;
  /** From the first step's beginning to the end, also where there is no slot just now. */
  stream: TokenStream | undefined;
  isOver = false;
  /** How often interactive ones went first; see Waiting. */
  overtakenCount = 0;
  /** It is not evicted before it has said so many tokens. */
  protectedTokens = 0;
  /** Its stream has no sequence to step on, until it is resumed. */
  isSuspended = false;
  /** Which step it was last a member of, by their number; 0: none yet. */
  steppedAt = 0;
  /** When its reader's buffer became full; undefined: there is room. */
  eventsFullSince: number | undefined;

  readonly #maxTokens: number;
  readonly #text: AnswerTextBuffer;
  #tokens: Token[] = [];
  #promptTokens = 0;
  #answerTokensMax = 0;
  #cachedTokens: number | undefined;
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
   * Takes the prompt's tokens; they leave room for one more in the context. False: no token is asked for,
   * so this was all.
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

  /** Prompt and answer so far. The last of them is evaluated by the next step, all others before. */
  get tokens(): readonly Token[] {
    return this.#tokens;
  }

  /** The newest token; there is one, as the prompt has at least one. */
  get lastToken(): Token {
    return this.#tokens[this.#tokens.length - 1] ?? 0;
  }

  get completionTokens(): number {
    return this.#tokens.length - this.#promptTokens;
  }

  /** It has got a sequence that holds so many of its tokens; the first time is what is told. */
  assignSlot(slot: GenerationSlot, keptTokens: number): void {
    this.slot = slot;
    this.#cachedTokens ??= keptTokens;
  }

  /** How many tokens are to be evaluated before the next step can be. */
  get unreadTokens(): number {
    return this.#tokens.length - 1 - (this.slot?.length ?? 0);
  }

  /** Tells once that the prompt has been read, however often it is read again after an eviction. */
  emitStarted(): void {
    if (this.#isStarted) return;
    this.#isStarted = true;
    const cachedTokens = this.#cachedTokens ?? 0;
    this.events.push({ type: "started", promptTokens: this.#promptTokens, cachedTokens });
  }

  /** Tells what a step brought. True: this was the end, and it has been told. */
  accept(outcome: Exclude<StepOutcome, { kind: "failed" }>): boolean {
    if (outcome.kind === "token") this.#tokens.push(outcome.token);
    const logprob = outcome.kind === "token" ? outcome.logprob : undefined;
    const told = this.#text.push(outcome.text, logprob);
    this.#emitText(told);
    if (told.stopped) this.#end("stop");
    else if (outcome.kind === "end") this.#endAt("stop");
    else if (this.completionTokens >= this.#answerTokensMax) this.#endAt("length");
    else return false;
    return true;
  }

  /** Ends without a stop text: what could have become one is part of the answer. */
  #endAt(reason: "stop" | "length"): void {
    this.#emitText(this.#text.flush());
    this.#end(reason);
  }

  #emitText({ text, logprobs }: EmittedText): void {
    if (logprobs) this.events.push({ type: "text", text, logprobs });
    else if (text !== "") this.events.push({ type: "text", text });
  }

  #end(reason: "stop" | "length"): void {
    this.events.push({ type: "end", reason, completionTokens: this.completionTokens });
    this.events.end();
  }
}
