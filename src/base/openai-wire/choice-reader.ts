import { getArrayMember, getMember, getStringMember } from "./json-members.ts";
import { parseLogprobs, type TokenLogprob } from "./parse-logprobs.ts";
import { SurrogateJoiner } from "./surrogate-joiner.ts";
import { type ToolCallDelta, ToolCallReader } from "./tool-call-reader.ts";

/** A part of a model's answer. `choice` is the position of the answer among the answers to one request. */
export type AnswerDelta =
  | { readonly type: "reasoning"; readonly choice: number; readonly text: string }
  | {
      readonly type: "text";
      readonly choice: number;
      readonly text: string;
      readonly logprobs?: readonly TokenLogprob[];
    }
  | ToolCallDelta;

/**
 * Reads one choice of an answer, either delta by delta or as one message. Every text that it yields consists of whole
 * code points.
 */
export class ChoiceReader {
  readonly #choice: number;
  readonly #text = new SurrogateJoiner();
  readonly #reasoning = new SurrogateJoiner();
  readonly #calls: ToolCallReader;

  constructor(choice: number) {
    this.#choice = choice;
    this.#calls = new ToolCallReader(choice);
  }

  get calledTools(): boolean {
    return this.#calls.count > 0;
  }

  /** Reads `value`, which is one item of the list `choices` of a chunk or of a whole answer. */
  *read(value: unknown): Generator<AnswerDelta, void, void> {
    const choice = this.#choice;
    const message = getMember(value, "delta") ?? getMember(value, "message");
    const thought =
      getStringMember(message, "reasoning_content") || getStringMember(message, "reasoning") || "";
    const reasoning = this.#reasoning.push(thought);
    if (reasoning !== "") yield { type: "reasoning", choice, text: reasoning };
    const text = this.#text.push(readContent(message) ?? getStringMember(value, "text") ?? "");
    const logprobs = parseLogprobs(getMember(value, "logprobs"));
    if (text !== "" || logprobs)
      yield { type: "text", choice, text, ...(logprobs && { logprobs }) };
    for (const call of getArrayMember(message, "tool_calls") ?? []) yield* this.#calls.read(call);
  }

  /** Yields the text that was held back because its last code point was not complete. */
  *end(): Generator<AnswerDelta, void, void> {
    const [reasoning, text] = [this.#reasoning.end(), this.#text.end()];
    if (reasoning !== "") yield { type: "reasoning", choice: this.#choice, text: reasoning };
    if (text !== "") yield { type: "text", choice: this.#choice, text };
  }
}

/** Reads the content of a message, which is a text or a list of parts. A refusal counts as text. */
function readContent(message: unknown): string | undefined {
  const parts = getArrayMember(message, "content");
  if (!parts) return getStringMember(message, "content") ?? getStringMember(message, "refusal");
  return parts
    .map((part) => (typeof part === "string" ? part : (getStringMember(part, "text") ?? "")))
    .join("");
}
