import { BerthError } from "../../../base/errors.ts";
import type { OverlayRequest } from "../../../client/bus/overlay-client.ts";
import { parseTurnEnd, parseTurnMeta } from "../../../client/bus/overlay-wire.ts";
import { ChatError } from "../../../client/rest/chat-client.ts";
import type { Cli } from "../../cli.ts";
import { exitCodes, formatError } from "../../cli-errors.ts";
import type { Companion } from "../../companion/connect-companion.ts";
import { callExitCodes } from "../../companion/show-result.ts";
import { sanitizeJson, sanitizeLine } from "../../companion/untrusted-text.ts";
import { addChatHint } from "../chat-error-hints.ts";
import { type PrintedAnswer, printAnswer } from "../print-answer.ts";
import { createTerminalPrompter } from "../run-chat.ts";
import { runTurn, type TurnRecord } from "./run-turn.ts";
import { formatSource } from "./show-consent-question.ts";

/**
 * Sends one question. Prints the answer on standard output and other information on standard error, or everything as
 * one JSON document. Sets the exit code. Rejects with the errors of OverlayClient.
 */
export async function askCompanion(
  cli: Cli,
  { overlay }: Companion,
  request: OverlayRequest,
  isJson: boolean,
  signal: AbortSignal,
): Promise<void> {
  const record: TurnRecord = {};
  const pieces = runTurn(cli, overlay, request, createTerminalPrompter(cli), record, signal);
  const options = { shouldShowThoughts: false, isSilent: isJson, waitingText: "..." };
  let answer: PrintedAnswer | undefined;
  let failure: unknown;
  try {
    answer = await printAnswer(cli, pieces, options, signal);
  } catch (error) {
    if (!(error instanceof ChatError)) throw error;
    failure = addChatHint(error, false);
  }
  cli.exitCode = chooseExitCode(record);
  if (isJson)
    return cli.print(
      sanitizeJson({
        v: 1,
        status: record.status ?? "cancelled",
        answer: answer?.text ?? "",
        meta: record.meta ?? null,
        detail: record.detail ?? null,
      }),
    );
  printTurnDetails(cli, record);
  if (failure instanceof BerthError)
    cli.io.writeError(formatError(failure, cli.errorColours, cli.globals.verbose === true));
  else if (answer?.denied !== undefined) cli.note(answer.denied);
  else if (record.status === undefined) cli.note("cancelled");
}

function chooseExitCode({ status }: TurnRecord): number {
  if (status === "completed") return exitCodes.done;
  if (status === "failed") return callExitCodes.failed;
  return status === "denied" ? callExitCodes.denied : exitCodes.interrupted;
}

/** Prints the sources and tool calls of an answer to standard error. */
function printTurnDetails(cli: Cli, { meta, detail }: TurnRecord): void {
  const { sources, unavailable } = parseTurnMeta(meta);
  const { calls, finishReason } = parseTurnEnd(detail);
  const lines = [
    ...sources.map(
      (source, index) => `${index === 0 ? "Sources: " : "         "}${formatSource(source)}`,
    ),
    ...calls.map(
      ({ appId, tool, status }) =>
        `Tool:    ${sanitizeLine(appId)} ${sanitizeLine(tool)} (${sanitizeLine(status)})`,
    ),
    ...unavailable.map((name) => `Without: ${sanitizeLine(name)}`),
  ];
  if (finishReason === "length") lines.push("(cut off: the context is full)");
  if (lines.length > 0) cli.note(cli.errorColours.dim(lines.join("\n")));
}
