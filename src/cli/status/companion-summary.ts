import type { Cli } from "../cli.ts";
import { formatFields } from "../output/format-sections.ts";

/** The fields of the companion's line `berth ready {json}` that `printCompanionSummary` prints. */
interface CompanionReadyLine {
  readonly url: string;
  readonly engine: string;
  readonly upstream: string | null;
  readonly bus_names: readonly string[];
  readonly apps_dir: string;
  readonly data_dir: string;
  readonly version: string;
}

/** Prints the addresses of the companion and commands to try, for a user who has just started it. */
export async function printCompanionSummary(cli: Cli, ready: CompanionReadyLine): Promise<void> {
  const { colours } = cli;
  await cli.print(
    [
      "",
      colours.bold(`Berth's companion ${ready.version} is running.`),
      "",
      formatFields([
        ["Session bus", ready.bus_names.join(", ")],
        ["OpenAI clients", `base URL ${ready.url}/v1, any API key`],
        ["Models", ready.upstream === null ? ready.engine : `those of ${ready.upstream}`],
        ["Apps", `sockets in ${ready.apps_dir}`],
        ["Ledger", `${ready.data_dir}/ledger`],
      ]),
      "",
      colours.bold("Try next:"),
      "  bin/berth tools",
      "  bin/berth call dev.berth.apps list_apps '{}'",
      '  bin/berth search "words of one of your notes"',
      `  bin/berth ledger verify --data-dir ${ready.data_dir}`,
      "",
      colours.dim("Press Ctrl-C to stop it."),
    ].join("\n"),
  );
}
