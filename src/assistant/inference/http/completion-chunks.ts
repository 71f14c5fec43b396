import {
  type AnswerHead,
  type ChoiceEvent,
  type ChunkFormat,
  chunkHead,
  chunkTail,
  endCounts,
} from "./answer-format.ts";
import { formatCompletionLogprobs } from "./format-logprobs.ts";

/** The `object` member of plain completions. In OpenAI's API, chunks and whole answers have the same value. */
export const completionObject = "text_completion";

/** Formats the chunks of a plain completion. `echoes` contains the text with which each choice begins. */
export class CompletionChunks implements ChunkFormat {
  readonly #head: string;
  readonly #tail: string;
  readonly #echoes: readonly string[];
  readonly #includeCounts: boolean;
  /** The number of characters of each choice so far, which is needed for the text offsets of logprobs. */
  readonly #lengths: number[];

  constructor(
    head: AnswerHead,
    echoes: readonly string[],
    options: { readonly includeUsage: boolean; readonly includeCounts: boolean },
  ) {
    this.#head = chunkHead(head, completionObject);
    this.#tail = chunkTail(options.includeUsage);
    this.#echoes = echoes;
    this.#includeCounts = options.includeCounts;
    this.#lengths = echoes.map(() => 0);
  }

  preamble(): string {
    return this.#echoes
      .map((echo, choice) => (echo === "" ? "" : this.#text(choice, echo, "null", "null")))
      .join("");
  }

  chunk(event: ChoiceEvent): string {
    if (event.type === "end") {
      const counts = this.#includeCounts ? endCounts(event) : "";
      return this.#text(event.choice, "", "null", `"${event.reason}"${counts}`);
    }
    if (event.type !== "text" || (event.text === "" && !event.logprobs)) return "";
    const offset = this.#lengths[event.choice] ?? 0;
    this.#lengths[event.choice] = offset + event.text.length;
    const logprobs = event.logprobs
      ? JSON.stringify(formatCompletionLogprobs(event.logprobs, offset))
      : "null";
    return this.#text(event.choice, event.text, logprobs, "null");
  }

  #text(choice: number, text: string, logprobs: string, finish: string): string {
    return `${this.#head}{"text":${JSON.stringify(text)},"index":${choice},"logprobs":${logprobs},"finish_reason":${finish}}${this.#tail}`;
  }
}
