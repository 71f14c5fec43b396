import { setTimeout as delay } from "node:timers/promises";
import type { Cli } from "../cli.ts";
import type { Decision, Question } from "../companion/ask-decision.ts";
import type { LineReader } from "./line-reader.ts";

/** As `askDecision`, of a person whose terminal a talk reads from already. */
export async function askInTalk(
  cli: Cli,
  reader: LineReader,
  question: Question,
  signal: AbortSignal,
): Promise<Decision> {
  const giveUp = () => reader.giveUp();
  signal.addEventListener("abort", giveUp, { once: true });
  try {
    await delay(question.holdMs, undefined, { signal }).catch(() => {});
    // What was typed before the question could be read is no answer to it.
    reader.forget();
    for (;;) {
      if (signal.aborted) return "overtaken";
      const typed = await reader.next(question.text);
      if (signal.aborted) {
        cli.io.writeError("\n");
        return "overtaken";
      }
      if (typed.type !== "line") {
        cli.io.writeError("\n");
        return "interrupted";
      }
      const verdict = question.judge(typed.text.trim());
      if (typeof verdict === "string") return verdict;
      cli.note(verdict.remark);
    }
  } finally {
    signal.removeEventListener("abort", giveUp);
  }
}
