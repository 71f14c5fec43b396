import { setTimeout as delay } from "node:timers/promises";
import type { Cli } from "../cli.ts";
import type { DecisionOutcome, DecisionPrompt } from "../companion/decision-prompt.ts";
import type { LineReader } from "./line-reader.ts";

/** Does the same as `askDecision` at a terminal from which a chat already reads. */
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
    // Earlier input was typed before the user could read the question.
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
