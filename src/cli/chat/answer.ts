import { isAbort } from "../../base/errors.ts";
import { safeText } from "../../base/safe-text.ts";
import type { ChatEnd } from "../../client/rest/chat.ts";
import type { Cli } from "../cli.ts";
import type { AnswerPiece } from "./talk.ts";

/** An answer as far as it came. */
export interface Answer {
  readonly text: string;
  readonly thoughts: string;
  /** Undefined where a person stopped it, or did not allow what it needed. */
  readonly end: ChatEnd | undefined;
  /** What a person did not allow, in words. */
  readonly denied: string | undefined;
}

export interface AnswerOptions {
  /** Shown where thoughts are; hidden otherwise. */
  readonly thoughts: boolean;
  /** Nothing is printed: the caller does so with all of it. */
  readonly isSilent: boolean;
  /** What a terminal shows until the first word comes. */
  readonly waiting: string;
}

/**
 * Prints an answer as it comes: its text to standard output, thoughts and what it waits for, which are no part of
 * it, to standard error; and has a person asked where it needs that. Rejects as the answer does; the signal ends it early.
 */
export async function printAnswer(
  cli: Cli,
  pieces: AsyncIterable<AnswerPiece>,
  options: AnswerOptions,
  signal: AbortSignal,
): Promise<Answer> {
  let text = "";
  let thoughts = "";
  let end: ChatEnd | undefined;
  let denied: string | undefined;
  const remark = new Remark(cli);
  if (!options.isSilent) remark.show(options.waiting);
  const page = new Page(cli, options.isSilent);
  try {
    for await (const piece of pieces) {
      if (piece.type === "end") end = piece;
      else if (piece.type === "denied") denied = piece.words;
      else if (piece.type === "question") {
        remark.clear();
        await page.close();
        await piece.ask();
        if (!options.isSilent) remark.show(options.waiting);
      } else if (piece.type === "thought") {
        thoughts += piece.text;
        if (options.isSilent) continue;
        if (options.thoughts) {
          remark.clear();
          page.thought(piece.text);
        } else remark.show("thinking ...");
      } else {
        text += piece.text;
        remark.clear();
        await page.text(piece.text);
      }
    }
  } catch (error) {
    if (!signal.aborted || !isAbort(error)) throw error;
  } finally {
    remark.clear();
    await page.close();
  }
  return { text, thoughts, end, denied };
}

/** Where the answer and the thoughts are written, each beginning on a line of its own. */
class Page {
  readonly #cli: Cli;
  readonly #isSilent: boolean;
  /** What has been written last, and whether that has ended its line. */
  #last: "nothing" | "thought" | "text" = "nothing";
  #isLineOpen = false;

  constructor(cli: Cli, isSilent: boolean) {
    this.#cli = cli;
    this.#isSilent = isSilent;
  }

  thought(piece: string): void {
    const text = safeText(piece);
    if (text === "") return;
    this.#cli.io.writeError(this.#cli.errorColours.dim(text));
    this.#wrote("thought", text);
  }

  async text(piece: string): Promise<void> {
    if (this.#isSilent) return;
    if (this.#last === "thought") this.#endThoughts();
    // Templates leave line breaks between thoughts and answer.
    const text = this.#last === "text" ? safeText(piece) : safeText(piece).trimStart();
    if (text === "") return;
    await this.#cli.io.write(text);
    this.#wrote("text", text);
  }

  async close(): Promise<void> {
    if (this.#last === "thought") this.#endThoughts();
    else if (this.#isLineOpen) await this.#cli.io.write("\n");
    this.#isLineOpen = false;
  }

  #endThoughts(): void {
    this.#cli.io.writeError(this.#isLineOpen ? "\n\n" : "\n");
    this.#last = "nothing";
    this.#isLineOpen = false;
  }

  #wrote(what: "thought" | "text", text: string): void {
    this.#last = what;
    this.#isLineOpen = !text.endsWith("\n");
  }
}

/** A remark that is wiped away when there is something to read; only where a person sees both. */
class Remark {
  readonly #cli: Cli;
  #shown = "";

  constructor(cli: Cli) {
    this.#cli = cli;
  }

  show(text: string): void {
    const { io, errorColours } = this.#cli;
    if (!io.errorIsTerminal || !io.outputIsTerminal || text === this.#shown) return;
    this.clear();
    io.writeError(errorColours.dim(text));
    this.#shown = text;
  }

  clear(): void {
    if (this.#shown !== "") this.#cli.io.writeError("\r\u001b[K");
    this.#shown = "";
  }
}
