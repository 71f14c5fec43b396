import { setTimeout as delay } from "node:timers/promises";
import type { Cli } from "../cli.ts";
import type { DecisionOutcome, DecisionPrompt } from "../companion/decision-prompt.ts";
import type { LineReader } from "./line-reader.ts";

/** As `askDecision`, of a person whose terminal a talk reads from already. */
export async function askInChat(
  cli: Cli,
  reader: LineReader,
  prompt: DecisionPrompt,
  signal: AbortSignal,
): Promise<DecisionOutcome> {
  const giveUp = () => reader.cancel();
  signal.addEventListener("abort", giveUp, { once: true });
  try {
    await delay(prompt.holdMs, undefined, { signal }).catch(() => {});
    // What was typed before the question could be read is no answer to it.
    reader.discardTyped();
    for (;;) {
      if (signal.aborted) return "overtaken";
      const typed = await reader.next(prompt.text);
      if (signal.aborted) {
        cli.io.writeError("\n");
        return "overtaken";
      }
      if (typed.type !== "line") {
        cli.io.writeError("\n");
        return "interrupted";
      }
      const verdict = prompt.parseAnswer(typed.text.trim());
      if (typeof verdict === "string") return verdict;
      cli.note(verdict.remark);
    }
  } finally {
    signal.removeEventListener("abort", giveUp);
  }
}
