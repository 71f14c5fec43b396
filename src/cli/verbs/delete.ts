import type { Command } from "commander";
import type { Client } from "../../client/rest/client.ts";
import type { Kind } from "../../resources/kinds.ts";
import type { Cli } from "../cli.ts";
import { declinedError, UsageError } from "../cli-errors.ts";
import { addExamples, addWaitOptions, collectValues, type WaitFlags } from "../command-options.ts";
import { waitForAppDeleted } from "../deploy/wait-for-app-ready.ts";
import { findKeptResources, formatKeptResources } from "../kept-resources.ts";
import { canPrompt, confirm } from "../prompt.ts";
import { formatReference, parseReferences } from "../resource-references.ts";
import { parseStackNames } from "../stacks/stack-words.ts";

interface DeleteFlags extends WaitFlags {
  readonly filename?: readonly string[];
  readonly force?: boolean;
  readonly volumes?: boolean;
  readonly files?: boolean;
  readonly yes?: boolean;
  readonly dryRun?: boolean;
  readonly ignoreNotFound?: boolean;
}

interface DeleteTarget {
  readonly kind: Kind;
  readonly name: string;
}

export function addDelete(program: Command, cli: Cli): void {
  const command = program
    .command("delete")
    .summary("delete apps and other resources")
    .description(
      "Deletes resources. The containers of an app are deleted with it; its named volumes and folders stay, unless --volumes is given. The files of a model stay on disk until the space is needed, unless --files is given. On a terminal it asks first.",
    )
    .argument("[name...]", "names of apps, KIND NAME..., KIND/NAME, or stack/NAME")
    .option(
      "-f, --filename <path>",
      "file whose resources are deleted; can be repeated",
      collectValues,
    )
    .option("--volumes", "delete the named volumes and folders too, with all data in them")
    .option("--files", "delete the files of models too, as `berth models rm` does")
    .option("--force", "delete a resource even if a spec file declares it")
    .option("--ignore-not-found", "do not fail if a resource does not exist")
    .option("--dry-run", "print what would happen, and change nothing")
    .option("-y, --yes", "do not ask");
  addExamples(addWaitOptions(command), [
    ["berth delete hello", "delete the app hello, and keep its volumes"],
    ["berth delete hello --volumes --wait", "delete its data too, and wait until it is gone"],
    ["berth delete secret db-password", "delete a secret"],
    ["berth delete model small --files", "delete a model and its files"],
    ["berth delete stack/blog", "delete all apps of a stack, and keep its volumes and secrets"],
    ["berth delete -f hello.yaml", "delete the resources of a file"],
  ]).action(async (words: string[], flags: DeleteFlags) => {
    const stacks = parseStackNames(words, "delete");
    if (stacks) {
      const { deleteStacks } = await import("../stacks/stack-verbs.ts");
      return deleteStacks(cli, stacks, flags);
    }
    const targets = await resolveTargets(cli, words, flags);
    const client = await cli.connect();
    if (flags.dryRun !== true) await confirmDeletion(cli, targets, flags);
    for (const target of targets) {
      const kept = target.kind === "App" ? await findKeptResources(client, target.name) : undefined;
      await deleteTarget(cli, client, target, flags);
      if (!kept) continue;
      const isTarget = (reference: string) =>
        targets.some(({ kind, name }) => formatReference(kind, name) === reference);
      const companions = kept.companions.filter((reference) => !isTarget(reference));
      const lines = formatKeptResources(
        target.name,
        { ...kept, companions },
        flags.volumes === true,
      );
      for (const line of lines) cli.note(cli.errorColours.dim(line));
    }
    if (flags.wait !== true || flags.dryRun === true) return;
    for (const { kind, name } of targets) {
      if (kind !== "App") continue;
      await waitForAppDeleted(cli, client, name, flags.timeout);
      await cli.print(`app/${name} is gone`);
    }
  });
}

async function resolveTargets(
  cli: Cli,
  words: readonly string[],
  flags: DeleteFlags,
): Promise<DeleteTarget[]> {
  const targets = parseReferences(words, true).flatMap(({ kind, names }) => {
    if (names.length === 0)
      throw new UsageError("delete needs a name", "berth delete NAME, or berth delete KIND NAME");
    return names.map((name) => ({ kind, name }));
  });
  if (flags.filename !== undefined) {
    const { readManifestFiles, requireManifests } = await import("../manifest-files.ts");
    const manifests = requireManifests(await readManifestFiles(cli, flags.filename));
    targets.push(
      ...manifests.map(({ manifest }) => ({ kind: manifest.kind, name: manifest.metadata.name })),
    );
  }
  if (targets.length === 0)
    throw new UsageError("delete needs a name or -f FILE", "berth delete NAME");
  return targets;
}

/**
 * Asks the user at a terminal. A script deletes without a question, as with kubectl, but needs --yes to delete data.
 */
async function confirmDeletion(
  cli: Cli,
  targets: readonly DeleteTarget[],
  flags: DeleteFlags,
): Promise<void> {
  if (flags.yes === true) return;
  const list = targets.map(({ kind, name }) => formatReference(kind, name)).join(", ");
  if (!canPrompt(cli)) {
    if (flags.volumes !== true) return;
    throw new UsageError(
      "--volumes deletes data for good, and there is no terminal on which to confirm it",
      "add --yes",
    );
  }
  const data = flags.volumes === true ? " and all data in the volumes and folders" : "";
  if (!(await confirm(cli, `Delete ${list}${data}?`))) throw declinedError("nothing was deleted");
}

async function deleteTarget(
  cli: Cli,
  client: Client,
  { kind, name }: DeleteTarget,
  flags: DeleteFlags,
): Promise<void> {
  const options = { force: flags.force === true, deleteVolumes: flags.volumes === true };
  const reference = formatReference(kind, name);
  try {
    if (kind === "App" && flags.dryRun === true) {
      const write = await client.apps.delete(name, { ...options, dryRun: true });
      return await cli.print(
        `${reference}: ${write.dryRun ? write.report.message : "would be deleted"}`,
      );
    }
    if (kind === "Model" && flags.files === true) {
      const write = await client.models.delete(name, {
        force: options.force,
        dryRun: flags.dryRun === true,
        files: true,
      });
      return await cli.print(
        `${reference}${write.dryRun ? `: ${write.report.message}` : " deleting"}`,
      );
    }
    const answer = await client.resources.delete(kind, name, {
      ...options,
      dryRun: flags.dryRun === true,
    });
    const outcome = flags.dryRun === true ? "would be deleted" : answer.state;
    await cli.print(`${reference} ${outcome}`);
  } catch (error) {
    const isGone = error instanceof Error && "status" in error && error.status === 404;
    if (flags.ignoreNotFound !== true || !isGone) throw error;
    await cli.print(`${reference} does not exist`);
  }
}
