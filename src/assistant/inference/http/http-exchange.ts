import { AssistantError } from "../../assistant-error.ts";
import type { AnswerEvent } from "../service-port.ts";

/** One request, from its arrival to its end. */
export class HttpExchange {
  readonly id: string;
  /** The time of the request's arrival in milliseconds since the Unix epoch. */
  readonly startedAtMs: number;
  /**
   * Facts about the request for the log and the metrics. They are added when they become known, and never contain a
   * part of the prompt.
   */
  readonly facts: ExchangeFacts = {};
  readonly #abort = new AbortController();
  #isClientGone = false;

  constructor(id: string, startedAtMs: number) {
    this.id = id;
    this.startedAtMs = startedAtMs;
  }

  /** Aborted when the client disconnects or the server closes. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** True if the client has disconnected; no answer can then be sent. */
  get isClientGone(): boolean {
    return this.#isClientGone;
  }

  /** Returns the reason why the server ended the request early. If there is none, returns `error`. */
  resolveError(error: unknown): unknown {
    return this.#abort.signal.aborted ? this.#abort.signal.reason : error;
  }

  markClientGone(): void {
    this.#isClientGone = true;
    this.#abort.abort();
  }

  shutDown(): void {
    this.#abort.abort(
      new AssistantError(
        "shutting_down",
        "Berth is shutting down; try again when it is running again",
      ),
    );
  }

  /** Adds the event's model, ledger number, token counts or time of the first token to `facts`. */
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
  /** The user whose program sent the request, if the port looks it up. */
  clientUid?: number;
  model?: string;
  ledgerSeq?: number;
  promptTokens?: number;
  cachedTokens?: number;
  completionTokens?: number;
  reasoningTokens?: number;
  /** The time from the request's arrival to the first delta in milliseconds. */
  firstTokenMs?: number;
  isStream?: boolean;
  /** The error code, if the request failed. */
  errorCode?: string;
}

/**
 * Formats the token counts of a request for the member `usage`. The prompt is counted once, even if the answer has
 * several choices.
 */
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
