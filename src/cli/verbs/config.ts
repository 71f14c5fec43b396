import type { Command } from "commander";
import { BerthError } from "../../base/errors.ts";
import type { Cli } from "../cli.ts";
import { UsageError } from "../cli-errors.ts";
import { addExamples, type OutputFormat, outputOption } from "../command-options.ts";
import { createListing, printListing } from "../output/print.ts";

interface ConfigFlags {
  readonly server?: boolean;
  readonly local?: boolean;
  readonly output?: OutputFormat;
}

interface Row {
  readonly key: string;
  readonly value: string;
  readonly source: string;
}

export function addConfig(program: Command, cli: Cli): void {
  addExamples(
    program
      .command("config")
      .summary("show each setting and the source of its value")
      .description(
        "Shows each setting of the running server and the source of its value: a flag, the environment, a config file, or the default. Without a running server, or with --local, shows the settings that `berth up` would use here.",
      )
      .option("--server", "show the settings of the running server, and fail without one")
      .option("--local", "show the settings that `berth up` would use here")
      .addOption(outputOption()),
    [
      ["berth config", "show the settings of the running server"],
      ["berth config --local", "show the settings that `berth up` would use here"],
      ["berth config -o yaml", "print the settings and their sources as YAML"],
    ],
  ).action(async (flags: ConfigFlags) => {
    if (flags.server === true && flags.local === true)
      throw new UsageError("--server and --local exclude each other");
    const rows = await readRows(cli, flags);
    await printListing(
      cli,
      createListing<Row>({
        rows,
        columns: [
          { header: "KEY", value: (row) => row.key },
          { header: "VALUE", value: (row) => row.value, canShrink: true },
          { header: "SOURCE", value: (row) => row.source, canShrink: true },
        ],
        name: (row) => row.key,
        document: { config: rows },
        empty: "no settings",
      }),
      flags.output,
    );
  });
}

async function readRows(cli: Cli, flags: ConfigFlags): Promise<Row[]> {
  if (flags.server === true) return serverRows(cli);
  if (flags.local === true) return localRows(cli);
  try {
    return await serverRows(cli);
  } catch (error) {
    if (!(error instanceof BerthError) || error.code !== "server_unreachable") throw error;
    const rows = await localRows(cli);
    cli.note(cli.errorColours.dim("no server runs here: these are the settings for `berth up`"));
    return rows;
  }
}

async function localRows(cli: Cli): Promise<Row[]> {
  const { loadConfig } = await import("../../config/config.ts");
  const config = loadConfig({
    flags: { data_dir: cli.globals.dataDir, config: cli.globals.config },
    environment: cli.io.environment,
    workingDirectory: cli.io.workingDirectory,
    isTerminal: cli.io.errorIsTerminal,
  });
  for (const warning of config.warnings) cli.note(warning);
  return config.values.map(({ key, value, source, origin }) => ({
    key,
    value: value ?? "",
    source: origin === null ? source : `${source} ${origin}`,
  }));
}

async function serverRows(cli: Cli): Promise<Row[]> {
  const { config } = await (await cli.connect()).system.config();
  return config.map(({ key, value, source }) => ({
    key,
    value: value ?? "",
    source,
  }));
}
