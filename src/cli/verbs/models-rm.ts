import type { Command } from "commander";
import { formatBytes } from "../../base/units.ts";
import { ApiError } from "../../client/rest/api-error.ts";
import type { Client } from "../../client/rest/client.ts";
import type { ModelDetails } from "../../resources/wire/models.ts";
import type { Cli } from "../cli.ts";
import { declinedError } from "../cli-errors.ts";
import { addExamples } from "../command-options.ts";
import { canPrompt, confirm } from "../prompt.ts";

interface RemoveFlags {
  readonly keepFiles?: boolean;
  readonly force?: boolean;
  readonly ignoreNotFound?: boolean;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
}

export function addRemove(models: Command, cli: Cli): void {
  addExamples(
    models
      .command("rm")
      .alias("remove")
      .summary("remove models, and free what they take on disk")
      .description(
        "Takes models out of memory and away, with their files, as far as no other model has them. With --keep-files these stay, for a pull that comes later, until others need the room. At a terminal it asks first.",
      )
      .argument("<model...>", "names or ids of models")
      .option("--keep-files", "leave the files on disk")
      .option("--force", "also where a spec file declares it")
      .option("--ignore-not-found", "it is no failure when there is none")
      .option("--dry-run", "tell what would happen, and change nothing")
      .option("-y, --yes", "do not ask"),
    [
      ["berth models rm small", "the model small and its files"],
      ["berth models rm small --keep-files", "a later pull has no need to download it"],
    ],
  ).action(async (words: string[], flags: RemoveFlags) => {
    const client = await cli.connect();
    const found = await Promise.all(words.map((word) => fetchModel(client, word, flags)));
    const targets = found.filter((model) => model !== undefined);
    if (flags.dryRun !== true && targets.length > 0) await confirmRemoval(cli, targets, flags);
    for (const [index, word] of words.entries()) {
      const model = found[index];
      if (model === undefined) await cli.print(`model/${word} is not there`);
      else await removeModel(cli, client, model, flags);
    }
  });
}

/** Undefined where there is none, and that is no failure. */
async function fetchModel(
  client: Client,
  word: string,
  flags: RemoveFlags,
): Promise<ModelDetails | undefined> {
  try {
    return await client.models.get(word);
  } catch (error) {
    const isGone = error instanceof ApiError && error.status === 404;
    if (flags.ignoreNotFound === true && isGone) return undefined;
    throw error;
  }
}

async function confirmRemoval(
  cli: Cli,
  targets: readonly ModelDetails[],
  flags: RemoveFlags,
): Promise<void> {
  if (flags.yes === true || !canPrompt(cli)) return;
  const list = targets.map((model) => `${model.name}${sizeText(model)}`).join(", ");
  const files = flags.keepFiles === true ? "; files stay" : "";
  if (!(await confirm(cli, `Remove ${list}${files}?`))) throw declinedError("nothing was removed");
}

/** A file of the server's machine that a person put there. */
function isLocal({ source }: ModelDetails): boolean {
  return source === "file";
}

function sizeText(model: ModelDetails): string {
  const { downloaded_bytes: bytes } = model;
  return bytes === 0 || isLocal(model) ? "" : ` (${formatBytes(bytes)})`;
}

async function removeModel(
  cli: Cli,
  client: Client,
  model: ModelDetails,
  flags: RemoveFlags,
): Promise<void> {
  const isKept = flags.keepFiles === true;
  const write = await client.models.delete(model.name, {
    force: flags.force === true,
    dryRun: flags.dryRun === true,
    files: !isKept,
  });
  if (write.dryRun) return cli.print(`model/${model.name}: ${write.report.message}`);
  const filesOutcome = isKept ? "its files stay" : `its files go${sizeText(model)}`;
  const what = isLocal(model) ? "the file stays where it is" : filesOutcome;
  await cli.print(`model/${model.name} is being removed; ${what}`);
}
