import type { Command } from "commander";
import type { UndoReport } from "../../client/bus/agent-wire.ts";
import type { Cli } from "../cli.ts";
import { UsageError } from "../cli-errors.ts";
import {
  addExamples,
  addJsonOptions,
  integerBetween,
  isJsonOutput,
  type JsonFlags,
} from "../command-options.ts";

interface UndoFlags extends JsonFlags {
  readonly skip?: number;
}

const CALL_ID_MAX = Number.MAX_SAFE_INTEGER;

export function addUndo(program: Command, cli: Cli): void {
  addExamples(
    addJsonOptions(
      program
        .command("undo")
        .summary("undo the last tool call")
        .description(
          "Undoes the last tool call that can be undone, with the tool that the app declares for the undo. Another run undoes the call before that one. If an undo fails, the call stays next in line until it is undone or skipped. If it is unknown whether an undo took effect, because the app did not answer in time, the next run goes on with the call before it; with the number of a call as its argument, the command tries again to undo this call. Exit codes: 0 done, or nothing to undo; 4 failed, can be tried again.",
        )
        .argument(
          "[call]",
          "number of a call whose undo has an unknown outcome",
          integerBetween(0, CALL_ID_MAX),
        )
        .option(
          "--skip <call-id>",
          "never undo this call, and continue with the one before it",
          integerBetween(0, CALL_ID_MAX),
        ),
    ),
    [
      ["berth undo", "undo the last call"],
      ["berth undo 17", "try again to undo call 17, whose undo has an unknown outcome"],
      ["berth undo --skip 17", "never undo call 17"],
    ],
  ).action(async (callId: number | undefined, flags: UndoFlags) => {
    if (callId !== undefined && flags.skip !== undefined)
      throw new UsageError("--skip cannot be combined with a number", "berth undo --skip 17");
    const { withCompanion } = await import("../companion/connect-companion.ts");
    const { parseUndoReport } = await import("../../client/bus/agent-wire.ts");
    const { sanitizeJson, sanitizeLine } = await import("../companion/untrusted-text.ts");
    const { callExitCodes } = await import("../companion/show-result.ts");
    await withCompanion(
      cli,
      async ({ agent }, signal) => {
        const document =
          flags.skip !== undefined
            ? await agent.undoSkip(BigInt(flags.skip), signal)
            : callId !== undefined
              ? await agent.undoCall(BigInt(callId), signal)
              : await agent.undo(signal);
        const report = parseUndoReport(document);
        if (report.status === "failed") cli.exitCode = callExitCodes.failed;
        if (isJsonOutput(flags)) return cli.print(sanitizeJson(document));
        if (report.status === "failed") return explainFailure(cli, report, sanitizeLine);
        await cli.print(formatUndoReport(report, sanitizeLine));
        noteUnknownOutcomes(cli, report);
      },
      "interrupted; the app may still be undoing the call: see `berth ledger tail --user`",
    );
  });
}

function formatUndoReport(report: UndoReport, sanitize: (text: string) => string): string {
  const call = `call ${report.callId ?? ""}, ${sanitize(report.appId)} ${sanitize(report.tool)}`;
  const more =
    report.remaining === 0
      ? "nothing more can be undone"
      : `${report.remaining} more can be undone`;
  if (report.status === "nothing") return "there is nothing to undo";
  if (report.status === "skipped") return `skipped: ${call}; ${more}`;
  const { compensation } = report;
  const by =
    compensation === undefined
      ? ""
      : ` by ${sanitize(compensation.tool)} ${sanitize(JSON.stringify(compensation.args) ?? "")}`;
  return `undone: ${call}${by.trimEnd()}; ${more}`;
}

function explainFailure(cli: Cli, report: UndoReport, sanitize: (text: string) => string): void {
  const { red, cyan } = cli.errorColours;
  const { callId, appId, tool, error, attempts } = report;
  const times = attempts > 1 ? `, after ${attempts} attempts` : "";
  const reason =
    error === undefined ? "" : ` (${sanitize(error.code)}): ${sanitize(error.message)}`;
  cli.note(
    `${red("error:")} call ${callId ?? ""}, ${sanitize(appId)} ${sanitize(tool)}, could not be undone${times}${reason}`,
  );
  const skip = `\`berth undo --skip ${callId ?? "ID"}\` to never undo it`;
  cli.note(
    error?.isOutcomeUnknown === true
      ? `${cyan("try:")}   check in the app if the call is undone: \`berth undo ${callId ?? "ID"}\` tries again, ${skip}; \`berth undo\` goes on with the call before it`
      : `${cyan("try:")}   \`berth undo\` again, or ${skip}`,
  );
}

/** Names the calls that the next undo passes over, because it is unknown whether their last undo took effect. */
function noteUnknownOutcomes(cli: Cli, { unknownCallIds }: UndoReport): void {
  const [first] = unknownCallIds;
  if (first === undefined) return;
  const calls = `${unknownCallIds.length === 1 ? "call" : "calls"} ${unknownCallIds.join(", ")}`;
  cli.note(
    `${cli.errorColours.yellow(`It is unknown if ${calls} ${unknownCallIds.length === 1 ? "is" : "are"} undone.`)} \`berth undo ${first}\` tries again, \`berth undo --skip ${first}\` never undoes this call.`,
  );
}
