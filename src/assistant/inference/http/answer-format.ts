import type { AnswerEvent } from "../service-port.ts";

/** An event that belongs to one choice. */
export type ChoiceEvent = Exclude<AnswerEvent, { readonly type: "accepted" | "started" }>;
export type StartedEvent = Extract<AnswerEvent, { readonly type: "started" }>;

/** The members that the answer and all its chunks have in common. */
export interface AnswerHead {
  readonly id: string;
  /** The creation time in seconds since the Unix epoch. */
  readonly created: number;
  readonly model: string;
}

/**
 * Formats the events of one route's stream. Each returned text consists of whole server-sent events, or is "" if there
 * is nothing to send.
 */
export interface ChunkFormat {
  /** Returns the first events of the stream, which are sent before any chunk. */
  preamble(): string;
  chunk(event: ChoiceEvent): string;
}

/** Collects the events of an answer that is sent as one document. */
export interface AnswerBuilder {
  add(event: ChoiceEvent): void;
  /** Returns the JSON document of the whole answer. `usage` is the result of `formatUsage`. */
  answer(head: AnswerHead, usage: unknown): unknown;
}

/**
 * Returns the start of a chunk's server-sent event, up to the opening bracket of `choices`. All chunks of an answer
 * start with the same text.
 */
export function chunkHead(head: AnswerHead, object: string): string {
  const { id, created, model } = head;
  return `data: ${JSON.stringify({ id, object, created, model }).slice(0, -1)},"choices":[`;
}

/**
 * Returns the text that closes the list `choices` and the server-sent event of a chunk. With `include_usage`, all
 * chunks but the last have `usage: null`.
 */
export function chunkTail(includeUsage: boolean): string {
  return includeUsage ? '],"usage":null}\n\n' : "]}\n\n";
}

/** Returns the chunk that is sent when the request is accepted, if the client set `svc_counts`. */
export function acceptedChunk(head: AnswerHead, object: string): string {
  return `${chunkHead(head, object)}],"svc_accepted":true}\n\n`;
}

/** Returns the chunk that is sent when a prompt has been read, if the client set `svc_counts`. */
export function startedChunk(head: AnswerHead, object: string, started: StartedEvent): string {
  const counts = {
    prompt: started.prompt,
    prompt_tokens: started.promptTokens,
    cached_tokens: started.cachedTokens,
  };
  return `${chunkHead(head, object)}],"svc_started":${JSON.stringify(counts)}}\n\n`;
}

/**
 * Returns the member `svc_tokens` with a choice's token counts, which follows finish_reason if the client set
 * `svc_counts`.
 */
export function endCounts(end: ChoiceEvent & { readonly type: "end" }): string {
  const counts = {
    completion_tokens: end.completionTokens,
    reasoning_tokens: end.reasoningTokens,
  };
  return `,"svc_tokens":${JSON.stringify(counts)}`;
}

export function usageChunk(head: AnswerHead, object: string, usage: unknown): string {
  return `${chunkHead(head, object)}],"usage":${JSON.stringify(usage)}}\n\n`;
}
