import { createInterface } from "node:readline";
import { Writable } from "node:stream";
import { cleanText } from "../clean-output.ts";
import type { Cli } from "../cli.ts";

/** `interrupted`: the user pressed Ctrl-C or Ctrl-D, or closed the terminal. `overtaken`: the signal aborted first. */
export type DecisionOutcome = "approve" | "decline" | "interrupted" | "overtaken";

export interface DecisionPrompt {
  readonly text: string;
  /**
   * Returns the decision that a line expresses, or a remark for the user if the line is not an answer. After a remark
   * the question is asked again.
   */
  readonly parseAnswer: (line: string) => "approve" | "decline" | { readonly remark: string };
  /**
   * The time in milliseconds before the question appears, so that the user reads the request first. Input during this
   * time is discarded.
   */
  readonly holdMs: number;
}

/** The shortest allowed `holdMs`. Input that arrives earlier was typed before the user could read the question. */
const HOLD_MS_MIN = 100;

/** Asks on standard error until the user decides or the signal aborts. */
export function askDecision(
  cli: Cli,
  prompt: DecisionPrompt,
  signal: AbortSignal,
): Promise<DecisionOutcome> {
  return new Promise((resolve) => {
    let isHeld = true;
    let isDecided = false;
    const output = new Writable({
      write(chunk: Buffer, _encoding, done) {
        if (!isHeld) cli.io.writeTerminal(chunk.toString());
        done();
      },
    });
    const reader = createInterface({ input: cli.io.input, output, terminal: true });
    const holdTimer = setTimeout(
      () => {
        // Discards the text on the line, which the user typed before the question was visible.
        reader.write("", { ctrl: true, name: "e" });
        reader.write("", { ctrl: true, name: "u" });
        isHeld = false;
        reader.setPrompt(cleanText(prompt.text, true));
        reader.prompt();
      },
      Math.max(HOLD_MS_MIN, prompt.holdMs),
    );
    const decide = (decision: DecisionOutcome, isLineOpen: boolean) => {
      if (isDecided) return;
      isDecided = true;
      clearTimeout(holdTimer);
      signal.removeEventListener("abort", onAbort);
      reader.close();
      if (isLineOpen) cli.io.writeError("\n");
      resolve(decision);
    };
    const onAbort = () => decide("overtaken", !isHeld);
    reader.on("line", (line) => {
      if (isHeld || isDecided) return;
      const verdict = prompt.parseAnswer(line.trim());
      if (typeof verdict === "string") return decide(verdict, false);
      cli.note(verdict.remark);
      reader.prompt();
    });
    reader.on("SIGINT", () => decide("interrupted", true));
    reader.on("close", () => decide("interrupted", true));
    signal.addEventListener("abort", onAbort, { once: true });
    if (signal.aborted) onAbort();
  });
}
