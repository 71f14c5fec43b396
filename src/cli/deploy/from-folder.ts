import { readFile, stat } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { BerthError } from "../../base/errors.ts";
import type { SourceTree } from "../../base/source-tree/list.ts";
import { formatBytes } from "../../base/units.ts";
import type { Cli } from "../cli.ts";
import { UsageError } from "../failure.ts";
import { appName } from "../kind-names.ts";
import { variablesOf } from "../pairs.ts";
import { askLine, canAsk } from "../prompt.ts";
import { nameFrom } from "./app-names.ts";
import { exposedPort } from "./exposed-port.ts";
import { type Before, finishDeploy, lookBefore } from "./finish.ts";
import type { DeployFlags } from "./flags.ts";
import { listFolder, packedFolder } from "./pack.ts";

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
  const dockerfile = before.app?.spec.build?.dockerfile;
  const leaving = new AbortController();
  const tree = await listFolder(dir, dockerfile, leaving.signal);
  if (tree.entries.length === 0)
    throw new UsageError(`${word ?? "this folder"} has nothing in it to build`);
  const port = await portOf(cli, tree, before, dockerfile, flags);
  const files = tree.entries.filter((entry) => entry.type === "file").length;
  if (flags.quiet !== true)
    cli.note(cli.errorColours.dim(`${name}: ${files} files, ${formatBytes(tree.bytes)}`));
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

/** As given, as it was, as the Dockerfile says, or as a person says when asked. */
async function portOf(
  cli: Cli,
  tree: SourceTree,
  { app }: Before,
  dockerfile: string | undefined,
  flags: DeployFlags,
): Promise<number> {
  const known = flags.port ?? app?.port ?? undefined;
  if (known !== undefined) return known;
  const path = dockerfile ?? "Dockerfile";
  const hasDockerfile = tree.entries.some((entry) => entry.path === path);
  const exposed = hasDockerfile
    ? exposedPort(await readFile(join(tree.dir, path), "utf8"))
    : undefined;
  if (exposed !== undefined) return exposed;
  if (canAsk(cli)) {
    const answer = Number(await askLine(cli, "On which port does the app listen? "));
    if (Number.isInteger(answer) && answer >= 1 && answer <= 65_535) return answer;
    throw new UsageError("that is no port: it is a number from 1 to 65535");
  }
  throw new UsageError(
    `it is not known on which port the app listens: ${
      hasDockerfile ? `${path} has no EXPOSE line` : `there is no ${path} that says it`
    }`,
    "berth deploy DIR --port PORT",
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
