import type { AppWriteResult } from "../../client/rest/app-calls.ts";
import type { Client } from "../../client/rest/client.ts";
import type { Cli } from "../cli.ts";
import { isDocumentFormat, type OutputFormat, type WaitFlags } from "../command-options.ts";
import { formatChanges, formatPlan } from "../output/change-lines.ts";
import { printDocument } from "../output/print.ts";
import { reportReadyApp } from "./report-ready-app.ts";
import { waitForAppReady } from "./wait-for-app-ready.ts";

export interface AppWriteFlags extends WaitFlags {
  readonly output?: OutputFormat;
}

/** Prints the effect of a write on an app. With --wait, waits until the app is Ready and prints the app. */
export async function reportAppWrite(
  cli: Cli,
  client: Client,
  name: string,
  write: AppWriteResult,
  phrases: { readonly done: string; readonly already: string },
  flags: AppWriteFlags,
): Promise<void> {
  const { colours } = cli;
  if (write.dryRun) {
    const { report } = write;
    if (isDocumentFormat(flags.output)) return printDocument(cli, report, flags.output);
    const lines = [`app/${name}: ${report.message}`];
    lines.push(...formatChanges(report.changes, colours).map((line) => `  ${line}`));
    if (report.plan !== null)
      lines.push("  plan:", ...formatPlan(report.plan, colours).map((line) => `    ${line}`));
    return cli.print(lines.join("\n"));
  }
  const isQuiet = flags.output !== undefined && flags.output !== "wide";
  if (!isQuiet) await cli.print(`app/${name} ${write.accepted ? phrases.done : phrases.already}`);
  if (flags.wait === true) {
    const { timeout: timeoutMs } = flags;
    const { generation } = write.app;
    const app = await waitForAppReady(cli, client, name, { timeoutMs, generation });
    return reportReadyApp(cli, app, flags.output);
  }
  if (isDocumentFormat(flags.output)) return printDocument(cli, write.app, flags.output);
  if (flags.output === "name") return cli.print(`app/${name}`);
  if (write.accepted && cli.io.errorIsTerminal)
    cli.note(cli.errorColours.dim(`follow it with \`berth get app ${name} -w\`, or use --wait`));
}
