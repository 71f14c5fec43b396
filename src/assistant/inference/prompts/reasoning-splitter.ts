import { findLengthBeforeMarker, findPartialMarkerLength } from "./partial-marker.ts";
import type { Thinking } from "./tools/tool-grammar.ts";

export interface AnswerPart {
  readonly kind: "reasoning" | "answer";
  readonly text: string;
}

/**
 * Separates a model's reasoning from its answer. White space around the reasoning, and before an answer
 * that follows it, is dropped.
 *
 * States: start (no text yet) -> thinking -> answer; or start -> answer.
 */
export class ReasoningSplitter {
  readonly #thinking: Thinking;
  #state: "start" | "thinking" | "answer";
  #held = "";
  #isBlankSoFar = true;

  constructor(thinking: Thinking) {
    this.#thinking = thinking;
    this.#state = thinking.isOpened ? "thinking" : "start";
  }

  /** False during the reasoning and the white space after it. */
  get isAnswering(): boolean {
    return this.#state === "start" || (this.#state === "answer" && !this.#isBlankSoFar);
  }

  push(text: string): readonly AnswerPart[] {
    this.#held += text;
    const parts: AnswerPart[] = [];
    if (this.#state === "start") this.#readStart();
    if (this.#state === "thinking") this.#readReasoning(parts);
    if (this.#state === "answer") this.#readAnswer(parts);
    return parts;
  }

  /**
   * Returns the text that is still held back. Call this method when the answer has ended. If the answer was cut off
   * within a tag, the part of the tag is dropped.
   */
  end(isCut: boolean): readonly AnswerPart[] {
    let text = this.#held;
    this.#held = "";
    if (this.#state !== "thinking") {
      // In the state `start`, only white space and a part of the opening tag are held back.
      const isTag = isCut && text.trim() !== "";
      return text === "" || isTag ? [] : [{ kind: "answer", text }];
    }
    if (isCut) {
      const partial = findPartialMarkerLength(text, this.#thinking.close);
      text = text.slice(0, text.length - partial);
    }
    const rest = (this.#isBlankSoFar ? text.trimStart() : text).trimEnd();
    return rest === "" ? [] : [{ kind: "reasoning", text: rest }];
  }

  #readStart(): void {
    const { open } = this.#thinking;
    const text = this.#held.trimStart();
    if (text.startsWith(open)) {
      this.#held = text.slice(open.length);
      this.#state = "thinking";
    } else if (!open.startsWith(text)) {
      this.#isBlankSoFar = false;
      this.#state = "answer";
    }
  }

  #readReasoning(parts: AnswerPart[]): void {
    const { close } = this.#thinking;
    if (this.#isBlankSoFar) this.#held = this.#held.trimStart();
    const at = this.#held.indexOf(close);
    const end =
      at === -1
        ? findLengthBeforeMarker(this.#held, close)
        : this.#held.slice(0, at).trimEnd().length;
    if (end > 0) {
      parts.push({ kind: "reasoning", text: this.#held.slice(0, end) });
      this.#isBlankSoFar = false;
    }
    if (at === -1) {
      this.#held = this.#held.slice(end);
      return;
    }
    this.#held = this.#held.slice(at + close.length);
    this.#isBlankSoFar = true;
    this.#state = "answer";
  }

  #readAnswer(parts: AnswerPart[]): void {
    if (this.#isBlankSoFar) this.#held = this.#held.trimStart();
    if (this.#held === "") return;
    this.#isBlankSoFar = false;
    parts.push({ kind: "answer", text: this.#held });
    this.#held = "";
  }
}
