import type { Command } from "commander";
import type { PlanView } from "../../resources/wire/apps.ts";
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
import { formatByStack } from "../stacks/format-by-stack.ts";
import { parseStackNames } from "../stacks/stack-words.ts";

export function addPlan(program: Command, cli: Cli): void {
  addExamples(
    program
      .command("plan")
      .summary("show the next operations of the server for an app, with their causes")
      .description(
        "Shows each call that the next reconcile of an app, or of all apps of a stack, would make to the container engine, with its cause.",
      )
      .argument("<app>", "name of an app, or stack/NAME")
      .addOption(outputOption()),
    [
      ["berth plan hello", "show the next operations for hello"],
      ["berth plan stack/blog", "show the next operations for each app of the stack blog"],
    ],
  ).action(async (word: string, options: { output?: OutputFormat }) => {
    const client = await cli.connect();
    const [stack] = parseStackNames([word], "plan") ?? [];
    if (stack !== undefined) {
      const report = await client.stacks.plan(stack);
      if (isDocumentFormat(options.output)) return printDocument(cli, report, options.output);
      const plans = report.plans.map((plan) => ({ ...plan, stack }));
      for (const text of formatByStack(plans, (plan) => formatAppPlan(cli, plan)))
        await cli.print(text);
      return;
    }
    const plan = await client.apps.plan(parseAppName(word));
    if (isDocumentFormat(options.output)) return printDocument(cli, plan, options.output);
    await cli.print(formatAppPlan(cli, plan));
  });
}

function formatAppPlan({ colours }: Cli, plan: PlanView): string {
  const reason = plan.strategy_reason === "" ? "" : colours.dim(` (${plan.strategy_reason})`);
  return [
    `app/${plan.app}, generation ${plan.generation}: ${plan.strategy}${reason}`,
    ...formatPlan(plan, colours).map((line) => `  ${line}`),
  ].join("\n");
}
