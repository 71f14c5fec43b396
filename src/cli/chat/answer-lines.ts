import { questionTexts } from "../companion/question-texts.ts";
import { displayWidth } from "../output/display-width.ts";

/** The prompts of a chat: for a message, and for its further lines. */
export const chatPrompts = { message: ">>> ", continuation: "... " } as const;

/** The text that is printed before a line of an answer if the line looks like a prompt of Berth. */
const MARK = "| ";
const TAB_COLUMNS = 8;
/** The characters that take more or fewer columns in some terminals, alone or with their neighbours. */
const uncertainWidth =
  /[\p{M}\p{Cf}\p{Emoji_Presentation}\p{Extended_Pictographic}\u1160-\u11FF\t]/u;

/** The beginnings of lines that an answer may not have, in the form that `normalise` returns. */
const reserved: readonly string[] = [
  chatPrompts.message.trim(),
  chatPrompts.continuation,
  ...Object.values(questionTexts).map((text) => normalise(text.replace("[y/N]", "")).trimEnd()),
];

/**
 * Marks the lines of an answer at a terminal that look like a prompt of the command line, so that a model cannot make
 * the user believe that Berth waits for a message, or asks for a permission. A line begins after a line break, and also
 * where the terminal wraps a long line. A long line is broken here if the terminal could wrap it at another place.
 */
export class AnswerLines {
  readonly #columns: () => number;
  /** The beginning of the current line, while it may still become a prompt. */
  #held = "";
  #isUndecided = true;
  #column = 0;
  /** False if `#column` may be greater than in the terminal, because the line has characters of uncertain width. */
  #isColumnExact = true;

  constructor(columns: () => number) {
    this.#columns = columns;
  }

  /** Adds the next piece of the answer, and returns the text to print for it. */
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
    this.#isColumnExact = true;
    return held;
  }

  #add(character: string): string {
    if (character === "\n") return `${this.end()}\n`;
    const isFull = this.#column + measureWidth(character, this.#column) > this.#columns();
    const isExact = this.#isColumnExact && !uncertainWidth.test(character);
    const before = isFull ? this.end() + (isExact ? "" : "\n") : "";
    this.#column += measureWidth(character, this.#column);
    this.#isColumnExact &&= !uncertainWidth.test(character);
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

/** Returns the greatest number of columns that a terminal may use for a character at this column. */
function measureWidth(character: string, column: number): number {
  if (character === "\t") return TAB_COLUMNS - (column % TAB_COLUMNS);
  // These two characters turn the character before them into an emoji, which many terminals show in two columns.
  return character === "\uFE0F" || character === "\u20E3" ? 1 : displayWidth(character);
}

/**
 * Returns the beginning of a line in the form in which lines are compared: without invisible characters, accents and
 * leading blanks, and with compatibility characters, such as fullwidth ones, replaced.
 */
function normalise(line: string): string {
  return line
    .normalize("NFKD")
    .replace(/[\p{M}\p{Cf}\p{Default_Ignorable_Code_Point}]/gu, "")
    .replace(/[\s\u2800]/g, " ")
    .trimStart()
    .toLowerCase();
}
