import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { appName } from "../kind-names.ts";
import { type OutputFormat, outputOption, withExamples } from "../options.ts";
import { planLines } from "../output/changes.ts";
import { printDocument } from "../output/print.ts";

export function addPlan(program: Command, cli: Cli): void {
  withExamples(
    program
      .command("plan")
      .summary("tell what the server would do about an app now, and why")
      .description(
        "Tells each call that the next reconcile of an app would make to the container engine, with its cause.",
      )
      .argument("<app>", "name of an app")
      .addOption(outputOption()),
    [["berth plan hello", "what happens next with hello"]],
  ).action(async (word: string, options: { output?: OutputFormat }) => {
    const name = appName(word);
    const plan = await (await cli.connect()).apps.plan(name);
    if (options.output === "json" || options.output === "yaml")
      return printDocument(cli, plan, options.output);
    const { colours } = cli;
    await cli.print(
      [
        `app/${name}, generation ${plan.generation}: ${plan.strategy}${plan.strategy_reason === "" ? "" : colours.dim(` (${plan.strategy_reason})`)}`,
        ...planLines(plan, colours).map((line) => `  ${line}`),
      ].join("\n"),
    );
  });
}
