import { isAbortError } from "../../base/errors.ts";
import type { ChatEndEvent } from "../../client/rest/chat-client.ts";
import type { Cli } from "../cli.ts";
import { sanitizeAnswer } from "../companion/untrusted-text.ts";
import { COLUMNS_STANDARD } from "../io.ts";
import { AnswerLines } from "./answer-lines.ts";
import type { ChatBackendEvent } from "./chat-backend.ts";

/** The record of a printed answer. The answer is incomplete if `end` is undefined. */
export interface PrintedAnswer {
  readonly text: string;
  readonly thoughts: string;
  /** The event that ended the answer; undefined if the user stopped the answer or refused a permission. */
  readonly end: ChatEndEvent | undefined;
  /** Describes the refused permission. */
  readonly denied: string | undefined;
}

export interface PrintAnswerOptions {
  /** If true, the model's thoughts are printed in addition to its answer. */
  readonly shouldShowThoughts: boolean;
  /** If true, nothing is printed, because the caller prints the whole answer. */
  readonly isSilent: boolean;
  /** The text that a terminal shows until the first token arrives. */
  readonly waitingText: string;
}

/**
 * Prints an answer while it is generated: its text on standard output, thoughts and status on standard error. If the
 * answer needs a permission, asks the user for it. Rejects with the error of the answer. The signal ends the answer
 * early.
 */
export async function printAnswer(
  cli: Cli,
  events: AsyncIterable<ChatBackendEvent>,
  options: PrintAnswerOptions,
  signal: AbortSignal,
): Promise<PrintedAnswer> {
  let text = "";
  let thoughts = "";
  let end: ChatEndEvent | undefined;
  let denied: string | undefined;
  const statusLine = new StatusLine(cli);
  if (!options.isSilent) statusLine.show(options.waitingText);
  const writer = new AnswerWriter(cli, options.isSilent);
  try {
    for await (const piece of events) {
      if (piece.type === "end") end = piece;
      else if (piece.type === "denied") denied = piece.message;
      else if (piece.type === "question") {
        statusLine.clear();
        await writer.close();
        await piece.ask();
        if (!options.isSilent) statusLine.show(options.waitingText);
      } else if (piece.type === "thought") {
        thoughts += piece.text;
        if (options.isSilent) continue;
        if (options.shouldShowThoughts) {
          statusLine.clear();
          writer.writeThought(piece.text);
        } else statusLine.show("thinking ...");
      } else {
        text += piece.text;
        statusLine.clear();
        await writer.writeText(piece.text);
      }
    }
  } catch (error) {
    if (!signal.aborted || !isAbortError(error)) throw error;
  } finally {
    statusLine.clear();
    await writer.close();
  }
  return { text, thoughts, end, denied };
}

/** Prints answer and thoughts, each beginning on its own line. */
class AnswerWriter {
  readonly #cli: Cli;
  readonly #isSilent: boolean;
  /**
   * Marks lines of the answer that look like a prompt. Undefined if standard output is not a terminal: then no prompt
   * is shown that a line could imitate.
   */
  readonly #lines: AnswerLines | undefined;
  readonly #thoughtLines: AnswerLines | undefined;
  /** The kind of the text that was printed last. */
  #last: "nothing" | "thought" | "text" = "nothing";
  #isLineOpen = false;

  constructor(cli: Cli, isSilent: boolean) {
    this.#cli = cli;
    this.#isSilent = isSilent;
    const { io } = cli;
    if (io.outputIsTerminal) this.#lines = new AnswerLines(() => io.columns ?? COLUMNS_STANDARD);
    if (io.errorIsTerminal)
      this.#thoughtLines = new AnswerLines(() => io.errorColumns ?? COLUMNS_STANDARD);
  }

  writeThought(piece: string): void {
    const text = sanitizeAnswer(piece);
    if (text === "") return;
    this.#writeDimmed(this.#thoughtLines?.push(text) ?? text);
    this.#recordWritten("thought", text);
  }

  async writeText(piece: string): Promise<void> {
    if (this.#isSilent) return;
    if (this.#last === "thought") this.#endThoughts();
    // Line breaks at the start of an answer are omitted, because some chat templates emit them between thoughts and
    // answer.
    const clean = sanitizeAnswer(piece);
    const text = this.#last === "text" ? clean : clean.trimStart();
    if (text === "") return;
    const shown = this.#lines?.push(text) ?? text;
    if (shown !== "") await this.#cli.io.write(shown);
    this.#recordWritten("text", text);
  }

  async close(): Promise<void> {
    if (this.#last === "thought") this.#endThoughts();
    const held = this.#lines?.end() ?? "";
    if (this.#isLineOpen) await this.#cli.io.write(`${held}\n`);
    this.#isLineOpen = false;
  }

  #endThoughts(): void {
    this.#writeDimmed(this.#thoughtLines?.end() ?? "");
    this.#cli.io.writeError(this.#isLineOpen ? "\n\n" : "\n");
    this.#last = "nothing";
    this.#isLineOpen = false;
  }

  #writeDimmed(text: string): void {
    if (text !== "") this.#cli.io.writeError(this.#cli.errorColours.dim(text));
  }

  #recordWritten(what: "thought" | "text", text: string): void {
    this.#last = what;
    this.#isLineOpen = !text.endsWith("\n");
  }
}

/**
 * A status that is erased when the answer begins. It is shown only if standard output and standard error are the same
 * terminal.
 */
class StatusLine {
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
