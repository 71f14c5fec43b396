import { questionTexts } from "../companion/question-texts.ts";
import { displayWidth } from "../output/display-width.ts";

/** The prompts of a chat: for a message, and for its further lines. */
export const chatPrompts = { message: ">>> ", continuation: "... " } as const;

/** The mark before a line of an answer that looks like a prompt. */
const MARK = "| ";
const TAB_COLUMNS = 8;

/** The beginnings of lines that an answer may not have, in the form that `normalise` returns. */
const reserved: readonly string[] = [
  chatPrompts.message.trim(),
  chatPrompts.continuation,
  ...Object.values(questionTexts).map((text) => normalise(text.replace("[y/N]", "")).trimEnd()),
];

/**
 * Marks the lines of an answer at a terminal that look like a prompt of the command line, so that a model cannot make
 * the user believe that Berth waits for a message, or asks for a permission. A line begins after a line break, and also
 * where the terminal wraps a long line.
 */
export class AnswerLines {
  readonly #columns: () => number;
  /** The beginning of the current line, while it may still become a prompt. */
  #held = "";
  #isUndecided = true;
  #column = 0;

  constructor(columns: () => number) {
    this.#columns = columns;
  }

  /** Returns the text to print for the next piece of the answer. */
  push(piece: string): string {
    let shown = "";
    for (const character of piece) shown += this.#add(character);
    return shown;
  }

  /** Returns the text that is held back. The next piece begins on a new line of the terminal. */
  end(): string {
    const held = this.#held;
    this.#held = "";
    this.#isUndecided = true;
    this.#column = 0;
    return held;
  }

  #add(character: string): string {
    if (character === "\n") return `${this.end()}\n`;
    const width =
      character === "\t" ? TAB_COLUMNS - (this.#column % TAB_COLUMNS) : displayWidth(character);
    const before = this.#column + width > this.#columns() ? this.end() : "";
    this.#column += width;
    if (!this.#isUndecided) return before + character;
    this.#held += character;
    const line = normalise(this.#held);
    const isPrompt = reserved.some((prompt) => line.startsWith(prompt));
    if (!isPrompt && reserved.some((prompt) => prompt.startsWith(line))) return before;
    const held = this.#held;
    this.#held = "";
    this.#isUndecided = false;
    if (!isPrompt) return before + held;
    this.#column += MARK.length;
    return before + MARK + held;
  }
}

/**
 * Returns the beginning of a line in the form in which lines are compared: without invisible characters, accents and
 * leading blanks, and with compatibility characters, such as fullwidth ones, replaced.
 */
function normalise(line: string): string {
  return line
    .normalize("NFKD")
    .replace(/[\p{M}\p{Cf}\p{Default_Ignorable_Code_Point}]/gu, "")
    .replace(/\s/g, " ")
    .trimStart()
    .toLowerCase();
}
