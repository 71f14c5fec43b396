import { open, rename, rm } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import type { Command } from "commander";
import { BerthError, getErrorCode } from "../../base/errors.ts";
import { formatBytes } from "../../base/units.ts";
import type { Cli } from "../cli.ts";
import { UsageError } from "../cli-errors.ts";
import {
  addExamples,
  isDocumentFormat,
  type OutputFormat,
  outputOption,
} from "../command-options.ts";
import { formatBackupContent } from "../output/backup-lines.ts";
import { printDocument } from "../output/print.ts";

export function addBackup(program: Command, cli: Cli): void {
  addExamples(
    program
      .command("backup")
      .summary("save the store of a running server to a file")
      .description(
        "Saves what a server needs to start on another machine: a consistent copy of the store (apps, secrets, revisions, events and tokens), the source archives in use, and the certificates. Lists what it leaves out, such as the data in volumes. The file contains secrets, so protect it as well as the server itself.",
      )
      .argument("<file>", "file to write; - for standard output")
      .option("--force", "replace an existing file")
      .addOption(outputOption()),
    [
      ["berth backup berth-2026-11-20.db", "save a copy"],
      ["berth restore berth-2026-11-20.db", "restore it"],
    ],
  ).action(async (file: string, flags: { force?: boolean; output?: OutputFormat }) => {
    if (file === "-" && flags.output !== undefined)
      throw new UsageError(
        "-o needs a FILE: with -, the backup itself is written to standard output",
        "berth backup FILE -o json",
      );
    const stream = await (await cli.connect()).backup();
    if (file === "-") {
      for await (const chunk of stream) await cli.io.write(chunk);
      return;
    }
    const target = resolve(cli.io.workingDirectory, file);
    const draft = join(dirname(target), `.berth-backup-${process.pid}`);
    try {
      const bytes = await saveStream(stream, draft);
      if (flags.force === true) await rename(draft, target);
      else await renameWithoutReplacing(draft, target, file);
      const { readBackupManifest } = await import("../../server/main.ts");
      const manifest = readBackupManifest(target);
      if (isDocumentFormat(flags.output))
        return await printDocument(cli, { file: target, bytes, ...manifest }, flags.output);
      await cli.print(`${file}: ${formatBytes(bytes)}`);
      if (manifest) await cli.print(formatBackupContent(manifest).join("\n"));
    } finally {
      await rm(draft, { force: true });
    }
  });
}

/** Writes the stream to a new file and syncs it, so that the backup survives a power failure. */
async function saveStream(stream: ReadableStream<Uint8Array>, file: string): Promise<number> {
  const handle = await open(file, "wx", 0o600);
  let bytes = 0;
  try {
    for await (const chunk of stream) {
      await handle.write(chunk);
      bytes += chunk.length;
    }
    await handle.sync();
  } finally {
    await handle.close();
  }
  if (bytes === 0) throw new BerthError("internal", "the server sent an empty backup");
  return bytes;
}

async function renameWithoutReplacing(
  draft: string,
  target: string,
  asWritten: string,
): Promise<void> {
  try {
    const handle = await open(target, "wx", 0o600);
    await handle.close();
  } catch (error) {
    if (getErrorCode(error) === "EEXIST")
      throw new BerthError("conflict", `${asWritten} already exists`, {
        hint: "choose another file, or use --force",
      });
    throw error;
  }
  await rename(draft, target);
}
