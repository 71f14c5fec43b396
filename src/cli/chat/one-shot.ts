import type { ChatClient, ServedModel } from "../../client/chat.ts";
import type { Cli } from "../cli.ts";
import { printAnswer } from "./answer.ts";
import { withHint } from "./chat-failure.ts";
import { type ChatSettings, requestOf } from "./settings.ts";

/** What shells say of a program that Ctrl-C has ended: 128 and the number of SIGINT. */
const INTERRUPTED = 130;

/** One message and its answer, alone on standard output. */
export async function askOnce(
  cli: Cli,
  client: ChatClient,
  model: ServedModel,
  message: string,
  settings: ChatSettings,
  isJson: boolean,
): Promise<void> {
  const leaving = new AbortController();
  const stay = cli.io.onInterrupt(() => leaving.abort());
  try {
    const { text, thoughts, end } = await printAnswer(
      cli,
      client,
      requestOf(model.id, [{ role: "user", content: message }], settings.system, settings),
      {
        thoughts: settings.thoughts,
        isSilent: isJson,
        waiting: model.state === "resident" ? "..." : `loading ${model.id} ...`,
      },
      leaving.signal,
    );
    if (end === undefined) {
      cli.exitCode = INTERRUPTED;
      return;
    }
    if (isJson)
      return await cli.print(
        terminalSafeJson({
          model: end.model ?? model.id,
          content: text,
          thoughts: thoughts === "" ? null : thoughts,
          finish_reason: end.finishReason,
          usage: end.usage,
        }),
      );
    if (end.finishReason === "length") cli.note(cli.errorColours.dim(cutOff(settings)));
  } catch (error) {
    throw withHint(error, false);
  } finally {
    stay();
  }
}

/** What is said of an answer that a limit ended. */
export function cutOff({ maxTokens }: ChatSettings): string {
  return maxTokens === undefined || maxTokens === -1
    ? "(cut off: the context is full)"
    : `(cut off after ${maxTokens} tokens: --max-tokens)`;
}

/** JSON escapes control characters below a space; some terminals obey those above 0x7E as well. */
function terminalSafeJson(document: unknown): string {
  return JSON.stringify(document, null, 2).replace(
    /[\u007F-\u009F]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
