import type { ModelDryRunReport } from "../../resources/wire/models.ts";
import type { Cli } from "../cli.ts";
import { formatPlan } from "../output/change-lines.ts";

export async function printModelDryRun(cli: Cli, report: ModelDryRunReport): Promise<void> {
  const { name, message, plan } = report;
  const lines = [`model/${name}: ${message}`];
  if (plan !== null)
    lines.push("  plan:", ...formatPlan(plan, cli.colours).map((line) => `    ${line}`));
  await cli.print(lines.join("\n"));
}
