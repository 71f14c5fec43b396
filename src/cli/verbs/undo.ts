import type { Command } from "commander";
import type { UndoReport } from "../../client/bus/agent-wire.ts";
import type { Cli } from "../cli.ts";
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
          "Undoes the last tool call that can be undone, with the tool that the app declares for the undo. Another run undoes the call before that one. If an undo fails, the call stays next in line until it is undone or skipped. Exit codes: 0 done, or nothing to undo; 4 failed, can be tried again.",
        )
        .option(
          "--skip <call-id>",
          "never undo this call, and continue with the one before it",
          integerBetween(0, CALL_ID_MAX),
        ),
    ),
    [
      ["berth undo", "undo the last call"],
      ["berth undo --skip 17", "never undo call 17"],
    ],
  ).action(async (flags: UndoFlags) => {
    const { withCompanion } = await import("../companion/connect-companion.ts");
    const { parseUndoReport } = await import("../../client/bus/agent-wire.ts");
    const { sanitizeJson, sanitizeLine } = await import("../companion/untrusted-text.ts");
    const { callExitCodes } = await import("../companion/show-result.ts");
    await withCompanion(
      cli,
      async ({ agent }, signal) => {
        const document =
          flags.skip === undefined
            ? await agent.undo(signal)
            : await agent.undoSkip(BigInt(flags.skip), signal);
        const report = parseUndoReport(document);
        if (report.status === "failed") cli.exitCode = callExitCodes.failed;
        if (isJsonOutput(flags)) return cli.print(sanitizeJson(document));
        if (report.status === "failed") return explainFailure(cli, report, sanitizeLine);
        await cli.print(formatUndoReport(report, sanitizeLine));
      },
      "interrupted; the call may still be undone: see `berth ledger tail --user`",
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
  cli.note(
    `${cyan("try:")}   \`berth undo\` again, or \`berth undo --skip ${callId ?? "ID"}\` to never undo it`,
  );
}
