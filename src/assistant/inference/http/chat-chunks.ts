import {
  type AnswerHead,
  type ChoiceEvent,
  type ChunkFormat,
  chunkHead,
  chunkTail,
  endCounts,
} from "./answer-format.ts";
import { formatChatLogprobs } from "./format-logprobs.ts";

export const chatChunkObject = "chat.completion.chunk";

export interface ChatChunksOptions {
  readonly includeUsage: boolean;
  readonly includeCounts: boolean;
  /**
   * True if the answer can only be a tool call. The first chunk then has no empty content, because the AI SDK would
   * take that for the start of a text.
   */
  readonly isCall: boolean;
}

/**
 * Formats the chunks of a chat answer. There is a chunk for each token, so the part that all chunks have in common is
 * formatted only once.
 */
export class ChatChunks implements ChunkFormat {
  /** For each choice, the text with which each of its chunks begins, up to the member `delta`. */
  readonly #heads: readonly string[];
  readonly #tail: string;
  readonly #preamble: string;
  readonly #includeCounts: boolean;

  constructor(head: AnswerHead, choices: number, options: ChatChunksOptions) {
    const start = chunkHead(head, chatChunkObject);
    this.#heads = Array.from({ length: choices }, (_, n) => `${start}{"index":${n},"delta":`);
    this.#tail = chunkTail(options.includeUsage);
    this.#includeCounts = options.includeCounts;
    const content = options.isCall ? "null" : '""';
    this.#preamble = `{"role":"assistant","content":${content},"refusal":null}`;
  }

  preamble(): string {
    return this.#heads
      .map((_, choice) => this.#text(choice, this.#preamble, "null", "null"))
      .join("");
  }

  chunk(event: ChoiceEvent): string {
    switch (event.type) {
      case "text": {
        if (event.text === "" && event.logprobs === undefined) return "";
        const logprobs = event.logprobs
          ? JSON.stringify(formatChatLogprobs(event.logprobs))
          : "null";
        const delta = `{"content":${JSON.stringify(event.text)}}`;
        return this.#text(event.choice, delta, logprobs, "null");
      }
      case "reasoning": {
        const delta = `{"reasoning_content":${JSON.stringify(event.text)}}`;
        return event.text === "" ? "" : this.#text(event.choice, delta, "null", "null");
      }
      case "tool_call": {
        const { start, index } = event;
        const call = start
          ? {
              index,
              id: start.id,
              type: "function",
              function: { name: start.name, arguments: event.arguments },
            }
          : { index, function: { arguments: event.arguments } };
        if (!start && event.arguments === "") return "";
        const delta = `{"tool_calls":[${JSON.stringify(call)}]}`;
        return this.#text(event.choice, delta, "null", "null");
      }
      default:
        return this.#text(
          event.choice,
          "{}",
          "null",
          `"${event.reason}"${this.#includeCounts ? endCounts(event) : ""}`,
        );
    }
  }

  #text(choice: number, delta: string, logprobs: string, finish: string): string {
    const head = this.#heads[choice] ?? "";
    return `${head}${delta},"logprobs":${logprobs},"finish_reason":${finish}}${this.#tail}`;
  }
}
