import { resolve } from "node:path";
import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { declinedError } from "../cli-errors.ts";
import {
  addExamples,
  isDocumentFormat,
  type OutputFormat,
  outputOption,
} from "../command-options.ts";
import { formatBackupContent } from "../output/backup-lines.ts";
import { printDocument } from "../output/print.ts";
import { canPrompt, confirm } from "../prompt.ts";

interface RestoreFlags {
  readonly force?: boolean;
  readonly newInstance?: boolean;
  readonly yes?: boolean;
  readonly output?: OutputFormat;
}

/**
 * Adds the verb `restore`. The command line writes to the data directory without a server, so no server may run on it.
 */
export function addRestore(program: Command, cli: Cli): void {
  addExamples(
    program
      .command("restore")
      .summary("restore a backup, while no server runs")
      .description(
        "Restores a backup into the data directory of this machine. Stop the server first. An existing store is replaced only with --force, and a copy of it is kept. Apps from source archives are built again, and the saved certificates are used again. Lists what the backup leaves out, such as the data in volumes.",
      )
      .argument("<file>", "file that `berth backup` has written")
      .option("--force", "replace an existing store")
      .option(
        "--new-instance",
        "give the copy an identity of its own, to run it next to the original on one engine",
      )
      .option("-y, --yes", "do not ask")
      .addOption(outputOption()),
    [
      ["berth restore berth-2026-11-20.db", "restore into an empty data directory"],
      ["berth restore berth-2026-11-20.db --data-dir /srv/berth --force", "replace another store"],
      [
        "berth restore berth-2026-11-20.db --data-dir /srv/try --new-instance",
        "run a copy next to the original",
      ],
    ],
  ).action(async (file: string, flags: RestoreFlags) => {
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
    const { keptAs, manifest, instanceId } = restoreStore({
      dataDir,
      file: resolve(cli.io.workingDirectory, file),
      force: flags.force === true,
      newInstance: flags.newInstance === true,
    });
    if (isDocumentFormat(flags.output))
      return printDocument(
        cli,
        { data_dir: dataDir, instance_id: instanceId, kept_as: keptAs, backup: manifest },
        flags.output,
      );
    await cli.print(`restored ${file} into ${dataDir}`);
    if (flags.newInstance === true)
      await cli.print(
        `the restored copy is the new instance ${instanceId}: its apps begin with empty volumes and new containers`,
      );
    if (keptAs !== null) await cli.print(`the previous store is kept as ${keptAs}`);
    if (manifest) await cli.print(formatBackupContent(manifest).join("\n"));
    cli.note(cli.errorColours.dim(`start the server: berth up --data-dir ${dataDir}`));
  });
}
