import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { addExamples, type OutputFormat, outputOption } from "../command-options.ts";
import { createListing, printListing } from "../output/print.ts";

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
        "Shows the settings that `berth up` would use here, and the source of each value: a flag, the environment, a config file, or the default. With --server, shows those of the running server.",
      )
      .option("--server", "show the settings of the running server")
      .addOption(outputOption()),
    [
      ["berth config", "show the settings that `berth up` would use"],
      ["berth config --server", "show the settings of the running server"],
      ["berth config -o yaml", "print the settings and their sources as YAML"],
    ],
  ).action(async (flags: { server?: boolean; output?: OutputFormat }) => {
    const rows = flags.server === true ? await serverRows(cli) : await localRows(cli);
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
