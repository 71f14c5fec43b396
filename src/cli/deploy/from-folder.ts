import { stat } from "node:fs/promises";
import { basename, resolve } from "node:path";
import { BerthError } from "../../base/errors.ts";
import { formatBytes } from "../../base/units.ts";
import type { Cli } from "../cli.ts";
import { UsageError } from "../failure.ts";
import { appName } from "../kind-names.ts";
import { variablesOf } from "../pairs.ts";
import { nameFrom } from "./app-names.ts";
import { type Before, finishDeploy, lookBefore } from "./finish.ts";
import type { DeployFlags } from "./flags.ts";
import { listFolder, packedFolder } from "./pack.ts";
import { portOf } from "./port-of.ts";

/** Uploads a folder and follows what becomes of it; a word that is no folder is the name of an app. */
export async function deployFolder(
  cli: Cli,
  word: string | undefined,
  flags: DeployFlags,
): Promise<void> {
  const dir = resolve(cli.io.workingDirectory, word ?? ".");
  const kind = await kindOf(dir);
  if (kind === "file")
    throw new UsageError(`${word ?? dir} is a file, not a folder`, "berth deploy DIR");
  if (kind === "nothing") return deployAnew(cli, word ?? ".", flags);

  const name = flags.name === undefined ? nameFrom(basename(dir)) : appName(flags.name);
  const client = await cli.connect();
  const before = await lookBefore(client, name);
  refuseNamesake(name, word ?? ".", before, flags);
  const dockerfile = before.app?.spec.build?.dockerfile;
  const leaving = new AbortController();
  const tree = await listFolder(dir, dockerfile, leaving.signal);
  if (tree.entries.length === 0)
    throw new UsageError(`${word ?? "this folder"} has nothing in it to build`);
  const port = await portOf(cli, tree, before, flags);
  const files = tree.entries.filter((entry) => entry.type === "file").length;
  if (flags.quiet !== true)
    cli.note(
      cli.errorColours.dim(
        `${name}: ${files} ${files === 1 ? "file" : "files"}, ${formatBytes(tree.bytes)}`,
      ),
    );
  const config = {
    name,
    port,
    ...(flags.domain === undefined ? {} : { domain: flags.domain }),
    ...(flags.env === undefined ? {} : { env: variablesOf(flags.env) }),
  };
  const write = await client.apps.deploySource(
    config,
    packedFolder(cli, tree, `uploading ${name}`, leaving.signal),
    { dryRun: flags.dryRun === true, force: flags.force === true },
  );
  return finishDeploy(cli, client, name, write, before, flags);
}

/** The app is there, and its source is to be looked at again. */
async function deployAnew(cli: Cli, word: string, flags: DeployFlags): Promise<void> {
  const name = /^[a-z0-9-]+$|^apps?\//.test(word) ? appName(word) : undefined;
  const client = await cli.connect();
  const before = name === undefined ? undefined : await lookBefore(client, name);
  if (name === undefined || before?.app === undefined)
    throw new UsageError(
      `there is no folder ${word}${name === undefined ? "" : ", and no app of that name"}`,
      "berth deploy DIR, or `berth get apps`",
    );
  const { source } = before.app.spec;
  if (source === undefined || "archive" in source)
    throw new UsageError(
      source === undefined
        ? `app "${name}" is made of an image`
        : `app "${name}" is built of a folder that was uploaded`,
      source === undefined
        ? `berth deploy ${name} --image IMAGE`
        : `give the folder: berth deploy DIR --name ${name}`,
    );
  for (const key of ["port", "domain", "env"] as const)
    if (flags[key] !== undefined)
      throw new UsageError(`--${key} goes with a folder or --git only`, "`berth edit` changes it");
  const write = await client.apps.deploy(
    name,
    {},
    { dryRun: flags.dryRun === true, force: flags.force === true },
  );
  return finishDeploy(cli, client, name, write, before, flags);
}

/**
 * The name of a folder may be that of an app which has nothing to do with it. Throws UsageError where
 * the app runs an image and nobody has said that the folder is to take its place.
 */
function refuseNamesake(name: string, word: string, { app }: Before, flags: DeployFlags): void {
  const image = app?.spec.image;
  if (image === undefined || flags.name !== undefined || flags.force === true) return;
  const owner = app?.owners["/spec/image"] ?? "";
  const file = owner.startsWith("file:") ? owner.slice("file:".length) : undefined;
  throw new UsageError(
    `app "${name}" runs the image ${image}${file === undefined ? "" : `, as its file ${file} says`}, and is not built of this folder`,
    `\`berth deploy ${word} --name OTHER\` makes another app; ${
      file === undefined
        ? `with \`--name ${name}\` the folder takes the image's place`
        : "with --force the folder takes the image's place until the file changes"
    }`,
  );
}

async function kindOf(dir: string): Promise<"folder" | "file" | "nothing"> {
  try {
    return (await stat(dir)).isDirectory() ? "folder" : "file";
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    if (code === "ENOENT" || code === "ENOTDIR") return "nothing";
    throw new BerthError("invalid_request", "the folder cannot be read", { cause: error });
  }
}
