import type { AnswerEvent } from "../service-port.ts";

/** An event that is about one choice. */
export type ChoiceEvent = Exclude<AnswerEvent, { readonly type: "accepted" | "started" }>;

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

export function usageChunk(head: AnswerHead, object: string, usage: unknown): string {
  return `${chunkHead(head, object)}],"usage":${JSON.stringify(usage)}}\n\n`;
}
