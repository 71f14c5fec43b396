import type { AnswerEvent } from "../service-port.ts";

/** An event that is about one choice. */
export type ChoiceEvent = Exclude<AnswerEvent, { readonly type: "accepted" | "started" }>;
export type StartedEvent = Extract<AnswerEvent, { readonly type: "started" }>;

/** What all chunks of an answer, or the answer itself, say. */
export interface AnswerHead {
  readonly id: string;
  /** In seconds since the Unix epoch. */
  readonly created: number;
  readonly model: string;
}

/** How one route writes its stream. Each text is whole server-sent events, or "" for nothing. */
export interface ChunkFormat {
  /** Before anything else. */
  preamble(): string;
  chunk(event: ChoiceEvent): string;
}

/** How one route gathers an answer that is sent in one piece. */
export interface AnswerBuilder {
  add(event: ChoiceEvent): void;
  /** `usage` as `usageOf` has it. */
  answer(head: AnswerHead, usage: unknown): unknown;
}

/** The beginning of every chunk: everything up to the choices. */
export function chunkHead(head: AnswerHead, object: string): string {
  const { id, created, model } = head;
  return `data: ${JSON.stringify({ id, object, created, model }).slice(0, -1)},"choices":[`;
}

/** The end of every chunk. With `include_usage`, all say that there is none yet, but for the last. */
export function chunkTail(includeUsage: boolean): string {
  return includeUsage ? '],"usage":null}\n\n' : "]}\n\n";
}

/** For who asks for counts as they become known: the request has been taken. */
export function acceptedChunk(head: AnswerHead, object: string): string {
  return `${chunkHead(head, object)}],"svc_accepted":true}\n\n`;
}

/** For who asks for counts as they become known: a prompt has been read. */
export function startedChunk(head: AnswerHead, object: string, started: StartedEvent): string {
  const counts = {
    prompt: started.prompt,
    prompt_tokens: started.promptTokens,
    cached_tokens: started.cachedTokens,
  };
  return `${chunkHead(head, object)}],"svc_started":${JSON.stringify(counts)}}\n\n`;
}

/** What stands behind the reason of a choice's end, for who asks for counts as they become known. */
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
