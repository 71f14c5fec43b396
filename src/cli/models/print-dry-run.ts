import type { ModelDryRunReport } from "../../resources/wire/models.ts";
import type { Cli } from "../cli.ts";
import { planLines } from "../output/changes.ts";

/** What a write would do, and what would follow from it. */
export async function printDryRun(cli: Cli, report: ModelDryRunReport): Promise<void> {
  const { name, message, plan } = report;
  const lines = [`model/${name}: ${message}`];
  if (plan !== null)
    lines.push("  plan:", ...planLines(plan, cli.colours).map((line) => `    ${line}`));
  await cli.print(lines.join("\n"));
}
