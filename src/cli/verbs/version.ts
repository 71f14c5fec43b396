import type { Command } from "commander";
import { packageVersion } from "../../base/package-version.ts";
import type { Cli } from "../cli.ts";
import { type OutputFormat, outputOption, withExamples } from "../options.ts";
import { printDocument } from "../output/print.ts";

export function addVersion(program: Command, cli: Cli): void {
  withExamples(
    program
      .command("version")
      .summary("print the version of the command line and of the server")
      .option("--client", "the command line alone")
      .addOption(outputOption()),
    [["berth version", "both versions"]],
  ).action(async (flags: { client?: boolean; output?: OutputFormat }) => {
    const server = flags.client === true ? undefined : await serverVersion(cli);
    const answer = { client: packageVersion(), server: server ?? null };
    if (flags.output === "json" || flags.output === "yaml")
      return printDocument(cli, answer, flags.output);
    return cli.print(
      `berth ${answer.client}${flags.client === true ? "" : `\nserver ${server ?? "none found"}`}`,
    );
  });
}

/** Undefined where no server is found or none answers: asking for a version never fails. */
async function serverVersion(cli: Cli): Promise<string | undefined> {
  try {
    const health = await (await cli.connect()).health(AbortSignal.timeout(3000));
    return health.version;
  } catch {
    return undefined;
  }
}
