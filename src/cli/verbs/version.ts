import type { Command } from "commander";
import { readPackageVersion } from "../../base/package-version.ts";
import type { Cli } from "../cli.ts";
import {
  addExamples,
  isDocumentFormat,
  type OutputFormat,
  outputOption,
} from "../command-options.ts";
import { printDocument } from "../output/print.ts";

export function addVersion(program: Command, cli: Cli): void {
  addExamples(
    program
      .command("version")
      .summary("print the versions of the command line and of the server")
      .option("--client", "print only the version of the command line")
      .addOption(outputOption()),
    [["berth version", "print both versions"]],
  ).action(async (flags: { client?: boolean; output?: OutputFormat }) => {
    const server = flags.client === true ? undefined : await findServerVersion(cli);
    const answer = { client: readPackageVersion(), server: server ?? null };
    if (isDocumentFormat(flags.output)) return printDocument(cli, answer, flags.output);
    return cli.print(
      `berth ${answer.client}${flags.client === true ? "" : `\nserver ${server ?? "none found"}`}`,
    );
  });
}

/**
 * Resolves to the version of the server; undefined if no server is found or the server does not answer, so that the
 * verb never fails.
 */
async function findServerVersion(cli: Cli): Promise<string | undefined> {
  try {
    const health = await (await cli.connect()).health(AbortSignal.timeout(3000));
    return health.version;
  } catch {
    return undefined;
  }
}
