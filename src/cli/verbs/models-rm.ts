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
      .summary("remove models and their files")
      .description(
        "Unloads and removes models, and deletes their files, unless another model uses them. With --keep-files the files stay for a later pull, until the space is needed. On a terminal it asks first.",
      )
      .argument("<model...>", "names or ids of models")
      .option("--keep-files", "keep the files on disk")
      .option("--force", "remove a model even if a spec file declares it")
      .option("--ignore-not-found", "do not fail if a model does not exist")
      .option("--dry-run", "print what would happen, and change nothing")
      .option("-y, --yes", "do not ask"),
    [
      ["berth models rm small", "remove the model small and its files"],
      ["berth models rm small --keep-files", "keep the files for a later pull"],
    ],
  ).action(async (words: string[], flags: RemoveFlags) => {
    const client = await cli.connect();
    const found = await Promise.all(words.map((word) => fetchModel(client, word, flags)));
    const targets = found.filter((model) => model !== undefined);
    if (flags.dryRun !== true && targets.length > 0) await confirmRemoval(cli, targets, flags);
    for (const [index, word] of words.entries()) {
      const model = found[index];
      if (model === undefined) await cli.print(`model/${word} does not exist`);
      else await removeModel(cli, client, model, flags);
    }
  });
}

/** Fetches a model. Resolves to undefined if the model is missing and --ignore-not-found is given. */
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

/** Returns true for a file that the user has put into the assistant's folder. */
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
  const filesOutcome = isKept ? "its files stay" : `its files are deleted${sizeText(model)}`;
  const outcome = isLocal(model) ? "its file stays" : filesOutcome;
  await cli.print(`model/${model.name} is being removed; ${outcome}`);
}
