import type { AnswerEvent } from "../service-port.ts";

/** An event that belongs to one choice. */
export type ChoiceEvent = Exclude<AnswerEvent, { readonly type: "accepted" | "started" }>;
export type StartedEvent = Extract<AnswerEvent, { readonly type: "started" }>;

/** Members that all chunks of an answer have, and the answer itself. */
export interface AnswerHead {
  readonly id: string;
  /** Seconds since the Unix epoch. */
  readonly created: number;
  readonly model: string;
}

/** Formats the stream of one route. Each text consists of whole server-sent events, or is "" for none. */
export interface ChunkFormat {
  /** Sent before anything else. */
  preamble(): string;
  chunk(event: ChoiceEvent): string;
}

/** Collects the events of an answer that is sent as one document. */
export interface AnswerBuilder {
  add(event: ChoiceEvent): void;
  /** `usage` is the result of `formatUsage`. */
  answer(head: AnswerHead, usage: unknown): unknown;
}

/** Returns the start of every chunk, up to its choices. */
export function chunkHead(head: AnswerHead, object: string): string {
  const { id, created, model } = head;
  return `data: ${JSON.stringify({ id, object, created, model }).slice(0, -1)},"choices":[`;
}

/** Returns the end of a chunk. With `include_usage`, all chunks but the last have `usage: null`. */
export function chunkTail(includeUsage: boolean): string {
  return includeUsage ? '],"usage":null}\n\n' : "]}\n\n";
}

/** Sent with `svc_counts` when the request is accepted. */
export function acceptedChunk(head: AnswerHead, object: string): string {
  return `${chunkHead(head, object)}],"svc_accepted":true}\n\n`;
}

/** Sent with `svc_counts` when a prompt has been read. */
export function startedChunk(head: AnswerHead, object: string, started: StartedEvent): string {
  const counts = {
    prompt: started.prompt,
    prompt_tokens: started.promptTokens,
    cached_tokens: started.cachedTokens,
  };
  return `${chunkHead(head, object)}],"svc_started":${JSON.stringify(counts)}}\n\n`;
}

/** Returns the token counts that follow a choice's finish_reason with `svc_counts`. */
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
