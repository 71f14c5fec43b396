import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import {
  addExamples,
  isDocumentFormat,
  type OutputFormat,
  outputOption,
} from "../command-options.ts";
import { formatPlan } from "../output/change-lines.ts";
import { printDocument } from "../output/print.ts";
import { parseAppName } from "../resource-references.ts";

export function addPlan(program: Command, cli: Cli): void {
  addExamples(
    program
      .command("plan")
      .summary("show the next operations of the server for an app, with their causes")
      .description(
        "Shows each call that the next reconcile of an app would make to the container engine, with its cause.",
      )
      .argument("<app>", "name of an app")
      .addOption(outputOption()),
    [["berth plan hello", "show the next operations for hello"]],
  ).action(async (word: string, options: { output?: OutputFormat }) => {
    const name = parseAppName(word);
    const plan = await (await cli.connect()).apps.plan(name);
    if (isDocumentFormat(options.output)) return printDocument(cli, plan, options.output);
    const { colours } = cli;
    await cli.print(
      [
        `app/${name}, generation ${plan.generation}: ${plan.strategy}${plan.strategy_reason === "" ? "" : colours.dim(` (${plan.strategy_reason})`)}`,
        ...formatPlan(plan, colours).map((line) => `  ${line}`),
      ].join("\n"),
    );
  });
}
