import { setTimeout as delay } from "node:timers/promises";
import type { ServedModel } from "../../client/rest/chat-client.ts";
import type { Cli } from "../cli.ts";
import {
  askDecision,
  type DecisionOutcome,
  type DecisionPrompt,
} from "../companion/decision-prompt.ts";
import { canPrompt } from "../prompt.ts";
import type { ChatBackend } from "./chat-backend.ts";
import { ChatSession } from "./chat-session.ts";
import type { ChatSettings } from "./chat-settings.ts";
import { LineReader } from "./line-reader.ts";
import { askOnce } from "./one-shot.ts";
import type { Prompter } from "./overlay/answer-question.ts";

export interface RunChatOptions {
  /** Opens the backend, which asks the user through `person` during an answer. */
  readonly openBackend: (person: Prompter) => ChatBackend;
  readonly chooseModel: (backend: ChatBackend) => Promise<ServedModel>;
  /** The only message to send; undefined if the user types messages. */
  readonly message: string | undefined;
  readonly settings: ChatSettings;
  readonly isJson: boolean;
}

/** Sends one message, or runs a chat at the terminal. */
export async function runChat(cli: Cli, options: RunChatOptions): Promise<void> {
  const { message, settings, isJson } = options;
  if (message !== undefined) {
    const backend = options.openBackend(createTerminalPrompter(cli));
    return askOnce(cli, backend, await options.chooseModel(backend), message, settings, isJson);
  }
  let opened: LineReader | undefined;
  const backend = options.openBackend(async (question, signal) =>
    opened === undefined ? "interrupted" : askInChat(cli, opened, question, signal),
  );
  const model = await options.chooseModel(backend);
  using reader = new LineReader({
    input: cli.io.input,
    write: (shown) => cli.io.writeTerminal(shown),
    columns: () => cli.io.columns,
  });
  opened = reader;
  await new ChatSession({ cli, backend, reader, settings, model }).run();
}

/** Returns a prompt at a terminal that no other code reads, or undefined if there is no terminal. */
export function createTerminalPrompter(cli: Cli): Prompter {
  return canPrompt(cli) ? (question, signal) => askDecision(cli, question, signal) : undefined;
}

/** Asks for a decision like `askDecision`, but at a terminal from which a chat already reads. */
async function askInChat(
  cli: Cli,
  reader: LineReader,
  prompt: DecisionPrompt,
  signal: AbortSignal,
): Promise<DecisionOutcome> {
  const giveUp = () => reader.cancel();
  signal.addEventListener("abort", giveUp, { once: true });
  try {
    await delay(prompt.holdMs, undefined, { signal }).catch(() => {});
    // Input that the user typed before the question was visible is not an answer to it.
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
