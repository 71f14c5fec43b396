import { BerthError } from "../../../base/errors.ts";
import type { OverlayRequest } from "../../../client/bus/overlay-client.ts";
import { turnEnd, turnMeta } from "../../../client/bus/overlay-wire.ts";
import { ChatError } from "../../../client/rest/chat.ts";
import type { Cli } from "../../cli.ts";
import type { Companion } from "../../companion/connect.ts";
import { callExitCodes } from "../../companion/show-result.ts";
import { shownJson, shownLine } from "../../companion/untrusted-text.ts";
import { exitCodes, explain } from "../../failure.ts";
import { type Answer, printAnswer } from "../answer.ts";
import { withHint } from "../chat-failure.ts";
import { personAt } from "../run-talk.ts";
import { playTurn, type TurnRecord } from "./play-turn.ts";
import { sourceText } from "./show-consent-question.ts";

/**
 * One question: its answer on standard output, all else about it on standard error, or all of it as JSON. Sets the
 * exit code. Rejects as OverlayClient does, where there is no end to tell.
 */
export async function askCompanion(
  cli: Cli,
  { overlay }: Companion,
  request: OverlayRequest,
  isJson: boolean,
  signal: AbortSignal,
): Promise<void> {
  const record: TurnRecord = {};
  const pieces = playTurn(cli, overlay, request, personAt(cli), record, signal);
  const options = { thoughts: false, isSilent: isJson, waiting: "..." };
  let answer: Answer | undefined;
  let failure: unknown;
  try {
    answer = await printAnswer(cli, pieces, options, signal);
  } catch (error) {
    if (!(error instanceof ChatError)) throw error;
    failure = withHint(error, false);
  }
  cli.exitCode = exitCodeFor(record);
  if (isJson)
    return cli.print(
      shownJson({
        v: 1,
        status: record.status ?? "cancelled",
        answer: answer?.text ?? "",
        meta: record.meta ?? null,
        detail: record.detail ?? null,
      }),
    );
  tellAbout(cli, record);
  if (failure instanceof BerthError)
    cli.io.writeError(explain(failure, cli.errorColours, cli.globals.verbose === true));
  else if (answer?.denied !== undefined) cli.note(answer.denied);
  else if (record.status === undefined) cli.note("cancelled");
}

function exitCodeFor({ status }: TurnRecord): number {
  if (status === "completed") return exitCodes.done;
  if (status === "failed") return callExitCodes.failed;
  return status === "denied" ? callExitCodes.denied : exitCodes.interrupted;
}

/** What an answer stands on, as far as it is no part of it. */
function tellAbout(cli: Cli, { meta, detail }: TurnRecord): void {
  const { sources, unavailable } = turnMeta(meta);
  const { calls, finishReason } = turnEnd(detail);
  const lines = [
    ...sources.map(
      (source, index) => `${index === 0 ? "Sources: " : "         "}${sourceText(source)}`,
    ),
    ...calls.map(
      ({ appId, tool, status }) =>
        `Tool:    ${shownLine(appId)} ${shownLine(tool)} (${shownLine(status)})`,
    ),
    ...unavailable.map((name) => `Without: ${shownLine(name)}`),
  ];
  if (finishReason === "length") lines.push("(cut off: the context is full)");
  if (lines.length > 0) cli.note(cli.errorColours.dim(lines.join("\n")));
}
