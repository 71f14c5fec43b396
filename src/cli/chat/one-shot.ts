import type { ServedModel } from "../../client/rest/chat.ts";
import type { Cli } from "../cli.ts";
import { callExitCodes } from "../companion/show-result.ts";
import { shownJson } from "../companion/untrusted-text.ts";
import { exitCodes } from "../failure.ts";
import { printAnswer } from "./answer.ts";
import { withHint } from "./chat-failure.ts";
import { type ChatSettings, requestOf } from "./settings.ts";
import type { Talk } from "./talk.ts";

/** One message and its answer, alone on standard output. */
export async function askOnce(
  cli: Cli,
  talk: Talk,
  model: ServedModel,
  message: string,
  settings: ChatSettings,
  isJson: boolean,
): Promise<void> {
  const leaving = new AbortController();
  const stay = cli.io.onInterrupt(() => leaving.abort());
  try {
    const said = [{ role: "user", content: message } as const];
    const request = requestOf(model.id, said, settings.system, settings);
    const { text, thoughts, end, denied } = await printAnswer(
      cli,
      talk.answer(request, leaving.signal),
      {
        thoughts: settings.thoughts,
        isSilent: isJson,
        waiting: model.state === "resident" ? "..." : `loading ${model.id} ...`,
      },
      leaving.signal,
    );
    if (denied !== undefined) {
      cli.exitCode = callExitCodes.denied;
      return cli.note(denied);
    }
    if (end === undefined) {
      cli.exitCode = exitCodes.interrupted;
      return;
    }
    if (isJson)
      return await cli.print(
        shownJson({
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
