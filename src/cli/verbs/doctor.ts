import type { Command } from "commander";
import type { ServerFlags } from "../../config/server-settings.ts";
import type { Cli } from "../cli.ts";
import { exitCodes } from "../cli-errors.ts";
import {
  addExamples,
  isDocumentFormat,
  type OutputFormat,
  outputOption,
} from "../command-options.ts";
import type { DoctorFinding } from "../doctor/finding.ts";
import { printDocument } from "../output/print.ts";
import { addServerOptions, toConfigFlags } from "../server-flags.ts";

export function addDoctor(program: Command, cli: Cli): void {
  const command = program
    .command("doctor")
    .summary("check this machine and its server, and suggest fixes")
    .description(
      "Checks what a server needs on this machine, and the server that runs here. Exits with 1 if a check fails.",
    )
    .addOption(outputOption());
  addExamples(addServerOptions(command), [
    ["berth doctor", "run all checks"],
    [
      "berth doctor --docker-host unix:///run/podman/podman.sock",
      "check the engine at this address, as `berth up` with the same flag would",
    ],
  ]).action(async (flags: ServerFlags & { output?: OutputFormat }) => {
    const { runChecks } = await import("../doctor/run-checks.ts");
    const findings = await runChecks(cli.io, toConfigFlags(cli, flags));
    if (findings.some(({ state }) => state === "fail")) cli.exitCode = exitCodes.failed;
    if (isDocumentFormat(flags.output))
      return printDocument(cli, { checks: findings }, flags.output);
    await cli.print(findings.map((found) => formatFinding(cli, found)).join("\n"));
    const count = (state: DoctorFinding["state"]) =>
      findings.filter((found) => found.state === state).length;
    const [failed, warned] = [count("fail"), count("warn")];
    await cli.print(
      failed + warned === 0
        ? `\n${cli.colours.green("no problems found")}`
        : `\n${failed} failed, ${warned} ${warned === 1 ? "warning" : "warnings"}`,
    );
  });
}

function formatFinding(cli: Cli, { check, state, message, fix }: DoctorFinding): string {
  const { colours } = cli;
  const mark = {
    ok: colours.green("ok  "),
    warn: colours.yellow("warn"),
    fail: colours.red("FAIL"),
  }[state];
  const indent = " ".repeat(22);
  const [first = "", ...rest] = message.split("\n");
  return [
    `${mark}  ${check.padEnd(14)}  ${first}`,
    ...rest.map((line) => `${indent}${line}`),
    ...(fix === undefined ? [] : [`${indent}${colours.cyan("try:")} ${fix}`]),
  ].join("\n");
}
