import type { ServedModel } from "../../client/rest/chat-client.ts";
import type { Cli } from "../cli.ts";
import { exitCodes } from "../cli-errors.ts";
import { callExitCodes } from "../companion/show-result.ts";
import { sanitizeJson } from "../companion/untrusted-text.ts";
import type { ChatBackend } from "./chat-backend.ts";
import { addChatHint } from "./chat-error-hints.ts";
import { type ChatSettings, createChatRequest } from "./chat-settings.ts";
import { printAnswer } from "./print-answer.ts";

/** Sends one message and prints only its answer on standard output. */
export async function askOnce(
  cli: Cli,
  backend: ChatBackend,
  model: ServedModel,
  message: string,
  settings: ChatSettings,
  isJson: boolean,
): Promise<void> {
  const leaving = new AbortController();
  const stay = cli.io.onInterrupt(() => leaving.abort());
  try {
    const said = [{ role: "user", content: message } as const];
    const request = createChatRequest(model.id, said, settings.system, settings);
    const { text, thoughts, end, denied } = await printAnswer(
      cli,
      backend.answer(request, leaving.signal),
      {
        shouldShowThoughts: settings.shouldShowThoughts,
        isSilent: isJson,
        waitingText: model.state === "resident" ? "..." : `loading ${model.id} ...`,
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
        sanitizeJson({
          model: end.model ?? model.id,
          content: text,
          thoughts: thoughts === "" ? null : thoughts,
          finish_reason: end.finishReason,
          usage: end.usage,
        }),
      );
    if (end.finishReason === "length") cli.note(cli.errorColours.dim(describeCutOff(settings)));
  } catch (error) {
    throw addChatHint(error, false);
  } finally {
    stay();
  }
}

/** Describes the limit that ended an answer. */
export function describeCutOff({ maxTokens }: ChatSettings): string {
  return maxTokens === undefined || maxTokens === -1
    ? "(cut off: the context is full)"
    : `(cut off after ${maxTokens} tokens: --max-tokens)`;
}
