import type { AnswerEvent } from "../service-port.ts";
import { getArrayMember, getMember, getStringMember } from "./json-members.ts";
import { parseLogprobs } from "./parse-logprobs.ts";
import { SurrogateJoiner } from "./surrogate-joiner.ts";
import { ToolCallReader } from "./tool-call-reader.ts";

/** Reads what one choice says, delta by delta or as one message. Everything it gives has whole code points. */
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

  /** One item of a chunk's `choices`, or of a whole answer's. */
  *read(value: unknown): Generator<AnswerEvent, void, void> {
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

  /** What was held back of a code point that never came whole. */
  *end(): Generator<AnswerEvent, void, void> {
    const [reasoning, text] = [this.#reasoning.end(), this.#text.end()];
    if (reasoning !== "") yield { type: "reasoning", choice: this.#choice, text: reasoning };
    if (text !== "") yield { type: "text", choice: this.#choice, text };
  }
}

/** A text, or the texts of a list of parts. A refusal is what the model says, too. */
function readContent(said: unknown): string | undefined {
  const parts = getArrayMember(said, "content");
  if (!parts) return getStringMember(said, "content") ?? getStringMember(said, "refusal");
  return parts
    .map((part) => (typeof part === "string" ? part : (getStringMember(part, "text") ?? "")))
    .join("");
}
