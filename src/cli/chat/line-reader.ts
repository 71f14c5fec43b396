import { createInterface, type Interface } from "node:readline";
import type { Readable } from "node:stream";
import { Writable } from "node:stream";

/** An action of the user at the prompt. */
export type LineReaderEvent =
  | { readonly type: "line"; readonly text: string; readonly isPasted: boolean }
  /** The user pressed Ctrl-C. If the line contained text, `hadText` is true, and the text was discarded. */
  | { readonly type: "interrupt"; readonly hadText: boolean }
  /** The user pressed Ctrl-D or closed the terminal. */
  | { readonly type: "end" };

export interface LineReaderOptions {
  readonly input: Readable;
  readonly write: (text: string) => void;
  /** The width of the terminal; undefined if it is unknown. */
  readonly columns: () => number | undefined;
}

/** Enables bracketed paste: the terminal marks pasted text, so that its line breaks do not count as Enter. */
const PASTE_MARKS_ON = "\u001b[?2004h";
const PASTE_MARKS_OFF = "\u001b[?2004l";

/**
 * Reads lines at a terminal. The caller may write to the same terminal between two lines, for example an answer. Input
 * that the user types during an answer is not echoed; it appears at the next prompt. Ctrl-C during an answer calls the
 * listener of `onInterrupt`.
 */
export class LineReader implements Disposable {
  readonly #options: LineReaderOptions;
  readonly #reader: Interface;
  readonly #typed: { readonly typed: LineReaderEvent; readonly wasShown: boolean }[] = [];
  readonly #onKey = (_text: unknown, key: { readonly name?: string } | undefined) => {
    if (key?.name === "paste-start") this.#isPasting = true;
    if (key?.name === "paste-end") this.#isPasting = false;
  };
  #isPasting = false;
  #isMuted = true;
  #hasEnded = false;
  #wake: (() => void) | undefined;
  #interruptListener: (() => void) | undefined;

  constructor(options: LineReaderOptions) {
    this.#options = options;
    const output = new ReadlineOutput(
      (text) => {
        if (!this.#isMuted) options.write(text);
      },
      () => options.columns(),
    );
    this.#reader = createInterface({ input: options.input, output, terminal: true });
    options.input.on("keypress", this.#onKey);
    this.#reader.on("line", (text) => {
      this.#add({ type: "line", text, isPasted: this.#isPasting });
    });
    this.#reader.on("SIGINT", () => this.#handleInterrupt());
    this.#reader.on("close", () => {
      this.#hasEnded = true;
      this.#interruptListener?.();
      this.#add({ type: "end" });
    });
    options.write(PASTE_MARKS_ON);
  }

  /** Shows the prompt, and resolves with the user's next action. */
  async next(prompt: string): Promise<LineReaderEvent> {
    if (this.#typed.length === 0 && !this.#hasEnded) {
      this.#isMuted = false;
      this.#reader.setPrompt(prompt);
      this.#reader.prompt(true);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      this.#wake = undefined;
    }
    this.#isMuted = true;
    const first = this.#typed.shift();
    if (first === undefined) return { type: "end" };
    // Input that was typed during the answer is shown at this prompt.
    if (!first.wasShown && first.typed.type === "line")
      this.#options.write(`${prompt}${first.typed.text}\n`);
    return first.typed;
  }

  /** Discards input that has not been read yet. */
  discardTyped(): void {
    this.#typed.length = 0;
    this.#clearLine();
  }

  /** Ends a pending `next` as if the terminal were closed. */
  cancel(): void {
    if (this.#wake === undefined) return;
    this.#clearLine();
    this.#wake();
  }

  /** Calls the listener at each Ctrl-C and when the terminal is closed. The returned function removes the listener. */
  onInterrupt(listener: () => void): () => void {
    this.#interruptListener = listener;
    return () => {
      this.#interruptListener = undefined;
    };
  }

  [Symbol.dispose](): void {
    this.#options.input.off("keypress", this.#onKey);
    this.#reader.close();
    this.#options.write(PASTE_MARKS_OFF);
  }

  #handleInterrupt(): void {
    if (this.#isMuted) {
      this.#interruptListener?.();
      return;
    }
    const hadText = this.#reader.line !== "";
    this.#clearLine();
    this.#add({ type: "interrupt", hadText });
  }

  #clearLine(): void {
    if (this.#hasEnded) return;
    this.#reader.write("", { ctrl: true, name: "e" });
    this.#reader.write("", { ctrl: true, name: "u" });
  }

  #add(typed: LineReaderEvent): void {
    this.#typed.push({ typed, wasShown: !this.#isMuted });
    this.#wake?.();
  }
}

/** The part of a terminal that readline needs. */
class ReadlineOutput extends Writable {
  readonly #show: (text: string) => void;
  readonly #columns: () => number | undefined;

  constructor(show: (text: string) => void, columns: () => number | undefined) {
    super({ decodeStrings: false });
    this.#show = show;
    this.#columns = columns;
  }

  get columns(): number | undefined {
    return this.#columns();
  }

  override _write(chunk: string | Buffer, _encoding: string, done: () => void): void {
    this.#show(chunk.toString());
    done();
  }
}
