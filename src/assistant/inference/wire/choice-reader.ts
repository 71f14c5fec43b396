import type { AnswerEvent } from "../service-port.ts";
import { logprobsOf } from "./logprobs.ts";
import { ToolCallReader } from "./tool-call-reader.ts";
import { WholeText } from "./whole-text.ts";
import { listMember, member, textMember } from "./wire-value.ts";

/** Reads what one choice says, delta by delta or as one message. Everything it gives has whole code points. */
export class ChoiceReader {
  readonly #choice: number;
  readonly #text = new WholeText();
  readonly #reasoning = new WholeText();
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
    const said = member(value, "delta") ?? member(value, "message");
    const thought = textMember(said, "reasoning_content") || textMember(said, "reasoning") || "";
    const reasoning = this.#reasoning.push(thought);
    if (reasoning !== "") yield { type: "reasoning", choice, text: reasoning };
    const text = this.#text.push(contentOf(said) ?? textMember(value, "text") ?? "");
    const logprobs = logprobsOf(member(value, "logprobs"));
    if (text !== "" || logprobs)
      yield { type: "text", choice, text, ...(logprobs && { logprobs }) };
    for (const call of listMember(said, "tool_calls") ?? []) yield* this.#calls.read(call);
  }

  /** What was held back of a code point that never came whole. */
  *end(): Generator<AnswerEvent, void, void> {
    const [reasoning, text] = [this.#reasoning.end(), this.#text.end()];
    if (reasoning !== "") yield { type: "reasoning", choice: this.#choice, text: reasoning };
    if (text !== "") yield { type: "text", choice: this.#choice, text };
  }
}

/** A text, or the texts of a list of parts. A refusal is what the model says, too. */
function contentOf(said: unknown): string | undefined {
  const parts = listMember(said, "content");
  if (!parts) return textMember(said, "content") ?? textMember(said, "refusal");
  return parts
    .map((part) => (typeof part === "string" ? part : (textMember(part, "text") ?? "")))
    .join("");
}
