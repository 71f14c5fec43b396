import { AssistantError } from "../../assistant-error.ts";
import type { AnswerEvent } from "../service-port.ts";

/** One request from its arrival to its end, however it ends. */
export class HttpExchange {
  readonly id: string;
  /** In milliseconds since the Unix epoch. */
  readonly startedAtMs: number;
  /** Filled in as it becomes known; for the log and the metrics, never with anything of a prompt. */
  readonly facts: ExchangeFacts = {};
  readonly #abort = new AbortController();
  #isClientGone = false;

  constructor(id: string, startedAtMs: number) {
    this.id = id;
    this.startedAtMs = startedAtMs;
  }

  /** Aborts when the client has gone, or the server closes. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** There is nobody to answer any more. */
  get isClientGone(): boolean {
    return this.#isClientGone;
  }

  /** Why the work ended before its time: what the server did, rather than what that led to. */
  resolveError(error: unknown): unknown {
    return this.#abort.signal.aborted ? this.#abort.signal.reason : error;
  }

  markClientGone(): void {
    this.#isClientGone = true;
    this.#abort.abort();
  }

  shutDown(): void {
    this.#abort.abort(
      new AssistantError("shutting_down", "Berth is shutting down; try again when it is up again"),
    );
  }

  /** Takes down what an event tells of the request as a whole. */
  recordEvent(event: AnswerEvent, nowMs: number): void {
    const { facts } = this;
    if (event.type === "accepted") {
      facts.model = event.model;
      facts.ledgerSeq = event.ledgerSeq;
    } else if (event.type === "started") {
      facts.promptTokens = (facts.promptTokens ?? 0) + event.promptTokens;
      facts.cachedTokens = (facts.cachedTokens ?? 0) + event.cachedTokens;
    } else if (event.type === "end") {
      facts.completionTokens = (facts.completionTokens ?? 0) + event.completionTokens;
      facts.reasoningTokens = (facts.reasoningTokens ?? 0) + (event.reasoningTokens ?? 0);
    } else {
      facts.firstTokenMs ??= nowMs - this.startedAtMs;
    }
  }
}

export interface ExchangeFacts {
  model?: string;
  ledgerSeq?: number;
  promptTokens?: number;
  cachedTokens?: number;
  completionTokens?: number;
  reasoningTokens?: number;
  /** From the request's arrival to the first delta, in milliseconds. */
  firstTokenMs?: number;
  isStream?: boolean;
  /** Code of the error, where it ended with one. */
  errorCode?: string;
}

/** The counts of a request, as every kind of answer has them. Prompts count once, however many choices. */
export function formatUsage(facts: ExchangeFacts) {
  const prompt = facts.promptTokens ?? 0;
  const completion = facts.completionTokens ?? 0;
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: { cached_tokens: facts.cachedTokens ?? 0 },
    completion_tokens_details: { reasoning_tokens: facts.reasoningTokens ?? 0 },
  };
}
