import { stat } from "node:fs/promises";
import { basename, resolve } from "node:path";
import { BerthError, getErrorCode } from "../../base/errors.ts";
import { formatBytes } from "../../base/units.ts";
import type { Cli } from "../cli.ts";
import { UsageError } from "../cli-errors.ts";
import { parseVariables } from "../key-value-pairs.ts";
import { parseAppName } from "../resource-references.ts";
import type { DeployFlags } from "./deploy-flags.ts";
import { toAppName } from "./derive-app-name.ts";
import { type DeployBaseline, finishDeploy, readBaseline } from "./finish-deploy.ts";
import { listFolder, packFolder } from "./pack-folder.ts";
import { resolvePort } from "./resolve-port.ts";

/**
 * Uploads a folder and follows its deploy. An argument that is not a folder is read as the name of an existing app,
 * which is deployed again.
 */
export async function deployFolder(
  cli: Cli,
  word: string | undefined,
  flags: DeployFlags,
): Promise<void> {
  const dir = resolve(cli.io.workingDirectory, word ?? ".");
  const kind = await detectPathType(dir);
  if (kind === "file")
    throw new UsageError(`${word ?? dir} is a file, not a folder`, "berth deploy DIR");
  if (kind === "nothing") return redeployApp(cli, word ?? ".", flags);

  const name = flags.name === undefined ? toAppName(basename(dir)) : parseAppName(flags.name);
  const client = await cli.connect();
  const baseline = await readBaseline(client, name);
  assertNotImageApp(name, word ?? ".", baseline, flags);
  const dockerfile = baseline.app?.spec.build?.dockerfile;
  const abort = new AbortController();
  const tree = await listFolder(dir, dockerfile, abort.signal);
  if (tree.entries.length === 0)
    throw new UsageError(`${word ?? "this folder"} contains no files to build`);
  const port = await resolvePort(cli, tree, baseline, flags);
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
    ...(flags.env === undefined ? {} : { env: parseVariables(flags.env) }),
  };
  const write = await client.apps.deploySource(
    config,
    packFolder(cli, tree, `uploading ${name}`, abort.signal),
    { dryRun: flags.dryRun === true, force: flags.force === true },
  );
  return finishDeploy(cli, client, name, write, baseline, flags);
}

/** Makes the server build the newest state of the source of an existing app. */
async function redeployApp(cli: Cli, word: string, flags: DeployFlags): Promise<void> {
  const name = /^[a-z0-9-]+$|^apps?\//.test(word) ? parseAppName(word) : undefined;
  const client = await cli.connect();
  const baseline = name === undefined ? undefined : await readBaseline(client, name);
  if (name === undefined || baseline?.app === undefined)
    throw new UsageError(
      `there is no folder ${word}${name === undefined ? "" : ", and no app of that name"}`,
      "berth deploy DIR; `berth get apps` lists the apps",
    );
  const { source } = baseline.app.spec;
  if (source === undefined || "archive" in source)
    throw new UsageError(
      source === undefined
        ? `app "${name}" runs an image`
        : `app "${name}" is built from an uploaded folder`,
      source === undefined
        ? `berth deploy ${name} --image IMAGE`
        : `name the folder: berth deploy DIR --name ${name}`,
    );
  for (const key of ["port", "domain", "env"] as const)
    if (flags[key] !== undefined)
      throw new UsageError(`--${key} needs a folder or --git`, "change it with `berth edit`");
  const write = await client.apps.deploy(
    name,
    {},
    { dryRun: flags.dryRun === true, force: flags.force === true },
  );
  return finishDeploy(cli, client, name, write, baseline, flags);
}

/**
 * Throws UsageError if the app runs an image, unless the user has named the app or forced the deploy: the
 * folder may have the name of an app by coincidence.
 */
function assertNotImageApp(
  name: string,
  word: string,
  { app }: DeployBaseline,
  flags: DeployFlags,
): void {
  const image = app?.spec.image;
  if (image === undefined || flags.name !== undefined || flags.force === true) return;
  const owner = app?.owners["/spec/image"] ?? "";
  const file = owner.startsWith("file:") ? owner.slice("file:".length) : undefined;
  throw new UsageError(
    `app "${name}" runs the image ${image}${file === undefined ? "" : `, which its file ${file} declares`}, and is not built from this folder`,
    `\`berth deploy ${word} --name OTHER\` creates another app; ${
      file === undefined
        ? `\`--name ${name}\` replaces the image by the folder`
        : "--force replaces the image by the folder until the file changes"
    }`,
  );
}

async function detectPathType(dir: string): Promise<"folder" | "file" | "nothing"> {
  try {
    return (await stat(dir)).isDirectory() ? "folder" : "file";
  } catch (error) {
    const code = getErrorCode(error);
    if (code === "ENOENT" || code === "ENOTDIR") return "nothing";
    throw new BerthError("invalid_request", "the folder cannot be read", { cause: error });
  }
}
