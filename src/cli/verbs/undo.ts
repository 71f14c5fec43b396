import type { Command } from "commander";
import type { UndoReport } from "../../client/bus/agent-wire.ts";
import type { Cli } from "../cli.ts";
import { addExamples, integerBetween } from "../command-options.ts";

interface UndoFlags {
  readonly skip?: number;
  readonly json?: boolean;
}

const CALL_ID_MAX = Number.MAX_SAFE_INTEGER;

export function addUndo(program: Command, cli: Cli): void {
  addExamples(
    program
      .command("undo")
      .summary("take back the last call of a tool")
      .description(
        "Takes back the last call that can be taken back, by the tool that its app declares for that; again: the one before. One that cannot be taken back stays first until it is skipped. Exit codes: 0 done, or there is nothing; 4 it failed, and can be tried again.",
      )
      .option(
        "--skip <call-id>",
        "leave this call as it is for good, so that the one before it comes next",
        integerBetween(0, CALL_ID_MAX),
      )
      .option("--json", "print what the companion says, as JSON"),
    [
      ["berth undo", "the last call"],
      ["berth undo --skip 17", "leave call 17 as it is"],
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
        if (flags.json === true) return cli.print(sanitizeJson(document));
        if (report.status === "failed") return explainFailure(cli, report, sanitizeLine);
        await cli.print(formatUndoReport(report, sanitizeLine));
      },
      "left; it may be undone all the same: `berth ledger tail --user` tells",
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
  if (report.status === "skipped") return `${call}, stays as it is; ${more}`;
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
  const times = attempts > 1 ? `, ${attempts} times by now` : "";
  const reason =
    error === undefined ? "" : ` (${sanitize(error.code)}): ${sanitize(error.message)}`;
  cli.note(
    `${red("error:")} call ${callId ?? ""}, ${sanitize(appId)} ${sanitize(tool)}, could not be undone${times}${reason}`,
  );
  cli.note(
    `${cyan("try:")}   the same again; \`berth undo --skip ${callId ?? "ID"}\` leaves it as it is`,
  );
}
