import { resolve } from "node:path";
import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { declinedError } from "../cli-errors.ts";
import { addExamples } from "../command-options.ts";
import { canPrompt, confirm } from "../prompt.ts";

/** Adds the verb `restore`. It writes to the data directory itself, so no server may run on it. */
export function addRestore(program: Command, cli: Cli): void {
  addExamples(
    program
      .command("restore")
      .summary("restore a backup, while no server runs")
      .description(
        "Restores a backup into the data directory of this machine. Stop the server first. An existing store is replaced only with --force, and a copy of it is kept.",
      )
      .argument("<file>", "file that `berth backup` has written")
      .option("--force", "replace an existing store")
      .option("-y, --yes", "do not ask"),
    [
      ["berth restore berth-2026-11-20.db", "restore into an empty data directory"],
      ["berth restore berth-2026-11-20.db --data-dir /srv/berth --force", "replace another store"],
    ],
  ).action(async (file: string, flags: { force?: boolean; yes?: boolean }) => {
    const { loadConfig } = await import("../../config/config.ts");
    const { dataDir } = loadConfig({
      flags: { data_dir: cli.globals.dataDir, config: cli.globals.config },
      environment: cli.io.environment,
      workingDirectory: cli.io.workingDirectory,
    });
    const mustAsk = flags.force === true && flags.yes !== true && canPrompt(cli);
    if (mustAsk && !(await confirm(cli, `Replace the store in ${dataDir}?`)))
      throw declinedError("nothing was restored");
    const { restoreStore } = await import("../../server/main.ts");
    const { keptAs } = restoreStore({
      dataDir,
      file: resolve(cli.io.workingDirectory, file),
      force: flags.force === true,
    });
    await cli.print(`restored ${file} into ${dataDir}`);
    if (keptAs !== null) await cli.print(`the previous store is kept as ${keptAs}`);
    cli.note(cli.errorColours.dim(`start it: berth up --data-dir ${dataDir}`));
  });
}
