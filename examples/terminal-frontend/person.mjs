// Reads from the user at the terminal: lines, answers to questions, and Ctrl-C. Input that arrives before a prompt
// is neither shown nor used.
import { createInterface } from "node:readline";
import { Writable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";

/** The minimum time between showing a question and accepting an answer. */
const HOLD_MS_MIN = 100;

export class Person {
  /** The result of a `line` call that was withdrawn by `takeBack`. */
  takenBack = Symbol("taken back");
  #reader;
  #isMuted = true;
  #hasLeft = false;
  #isDeciding = false;
  #prefilled = "";
  #settle;
  #interrupt;

  constructor() {
    process.once("SIGINT", () => this.#interrupted());
    if (!process.stdin.isTTY || !process.stderr.isTTY) return;
    const output = new Writable({
      write: (chunk, _encoding, done) => {
        if (!this.#isMuted) process.stderr.write(chunk);
        done();
      },
    });
    this.#reader = createInterface({ input: process.stdin, output, terminal: true });
    this.#reader.on("line", (line) => this.#end(line));
    this.#reader.on("SIGINT", () => this.#interrupted());
    this.#reader.on("close", () => {
      this.#hasLeft = true;
      this.#end(undefined);
    });
  }

  /** Reads a line. Returns undefined if the user ends the input, or if there is no terminal. */
  async line(prompt) {
    const prefilled = this.#prefilled;
    this.#prefilled = "";
    return await this.#read(prompt, prefilled);
  }

  /**
   * Asks the user a question and resolves to the answer; earlier input is ignored. If the promise `over` resolves
   * first, because the question was decided elsewhere, the question is withdrawn and the result is `takenBack`.
   */
  async ask(question, holdMs, over) {
    this.#isDeciding = true;
    let state = "held";
    void over?.then(() => {
      if (state === "asked") this.#takeBack(this.#prefilled);
      if (state === "held") state = "over";
    });
    try {
      await delay(Math.max(holdMs, HOLD_MS_MIN));
      if (state === "over") return this.takenBack;
      state = "asked";
      this.#clear();
      return await this.#read(question, "");
    } finally {
      state = "answered";
      this.#isDeciding = false;
    }
  }

  /**
   * Withdraws the current prompt. The text that the user has typed so far appears again at the next prompt. Does
   * nothing while the question of `ask` is open.
   */
  takeBack() {
    if (!this.#isDeciding) this.#takeBack(this.#reader?.line ?? "");
  }

  async #read(prompt, prefilled) {
    if (this.#reader === undefined || this.#hasLeft) return undefined;
    const answer = new Promise((resolve) => (this.#settle = resolve));
    this.#isMuted = false;
    this.#reader.setPrompt(prompt);
    this.#reader.prompt();
    if (prefilled !== "") this.#reader.write(prefilled);
    return await answer;
  }

  #takeBack(kept) {
    if (this.#settle === undefined) return;
    this.#clear();
    this.#prefilled = kept;
    process.stderr.write("\n");
    this.#end(this.takenBack);
  }

  /**
   * Replaces the text after the prompt with text from another program. While a question is open, the text waits for the
   * next prompt, because it must never become an answer.
   */
  prefill(text) {
    process.stderr.write("\u0007");
    if (this.#settle === undefined || this.#isDeciding) {
      this.#prefilled = text;
      return;
    }
    this.#clear();
    this.#reader.write(text);
  }

  /** Calls `listener` at Ctrl-C while there is no prompt. */
  onInterrupt(listener) {
    this.#interrupt = listener;
    return () => (this.#interrupt = undefined);
  }

  close() {
    this.#reader?.close();
    process.stdin.unref?.();
  }

  #interrupted() {
    if (this.#settle === undefined) return this.#interrupt?.();
    process.stderr.write("\n");
    this.#end(undefined);
  }

  #clear() {
    this.#reader?.write(null, { ctrl: true, name: "e" });
    this.#reader?.write(null, { ctrl: true, name: "u" });
  }

  #end(line) {
    const settle = this.#settle;
    this.#settle = undefined;
    this.#isMuted = true;
    settle?.(line);
  }
}
