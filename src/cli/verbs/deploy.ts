import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { UsageError } from "../cli-errors.ts";
import {
  addExamples,
  addWaitOptions,
  collectValues,
  integerBetween,
  outputOption,
} from "../command-options.ts";
import type { DeployFlags } from "../deploy/deploy-flags.ts";
import { finishDeploy, readBaseline } from "../deploy/finish-deploy.ts";
import { parseAppName } from "../resource-references.ts";

export function addDeploy(program: Command, cli: Cli): void {
  const command = program
    .command("deploy")
    .summary("deploy a folder, a repository or an image")
    .description(
      "Uploads a folder, builds it and deploys it; creates the app if it does not exist. Files that .dockerignore names are not uploaded. With --git the server builds from a repository, with --image it uses an existing image. With the name of an app instead of a folder, it builds the newest commit of the app's repository.",
    )
    .argument(
      "[folder]",
      "folder to build, or name of an app; with --image and --git the name of the app (default: .)",
    )
    .option("--name <app>", "name of the app; default: the name of the folder or the repository")
    .option("--port <port>", "port on which the app listens", integerBetween(1, 65_535))
    .option("--no-port", "the app listens on no port: it is a worker")
    .option("--domain <name>", "host name; default: NAME.<base domain>")
    .option(
      "-e, --env <NAME=value>",
      "environment variable; NAME=secret:SECRET/KEY reads it from a secret; can be repeated",
      collectValues,
    )
    .option("--image <reference>", "image to deploy, such as nginx:1.27")
    .option("--git <url>", "repository to build")
    .option("--ref <ref>", "with --git: branch, tag or commit")
    .option("--path <path>", "with --git: folder in the repository")
    .option("--credential <secret>", "with --git: Secret with the credential of the repository")
    .option("-q, --quiet", "do not show the log of the build")
    .option("--dry-run", "print what would happen, and change nothing")
    .option("--force", "change fields even if a spec file owns them")
    .addOption(outputOption());
  addExamples(
    addWaitOptions(command).option("--no-wait", "return once the server has the source"),
    [
      ["berth deploy", "build the working directory, and wait until the app is ready"],
      ["berth deploy ./shop --port 8080", "build a folder that does not name its port"],
      ["berth deploy shop --git https://example.org/shop.git --ref v2", "build a repository's tag"],
      ["berth deploy shop", "build the newest commit of the repository of shop"],
      ["berth deploy hello --image nginx:1.28", "deploy an image, and wait until the app is ready"],
    ],
  ).action(async (word: string | undefined, flags: DeployFlags) => {
    assertFlags(flags);
    if (flags.image !== undefined)
      return deployImage(cli, resolveAppName(word, flags), flags.image, flags);
    if (flags.git !== undefined) {
      const { deployRepository } = await import("../deploy/deploy-repository.ts");
      return deployRepository(
        cli,
        word === undefined ? flags.name : resolveAppName(word, flags),
        flags,
      );
    }
    const { deployFolder } = await import("../deploy/deploy-folder.ts");
    return deployFolder(cli, word, flags);
  });
}

function assertFlags(flags: DeployFlags): void {
  if (flags.image !== undefined && flags.git !== undefined)
    throw new UsageError("--image and --git exclude each other");
  for (const key of ["ref", "path", "credential"] as const)
    if (flags[key] !== undefined && flags.git === undefined)
      throw new UsageError(`--${key} needs --git`);
  if (flags.image === undefined) return;
  for (const key of ["port", "domain", "env"] as const)
    if (flags[key] !== undefined)
      throw new UsageError(
        `--${key} cannot be combined with --image`,
        "`berth create` creates an app from an image, `berth edit` changes one",
      );
}

function resolveAppName(word: string | undefined, flags: DeployFlags): string {
  const name = word ?? flags.name;
  if (name === undefined)
    throw new UsageError("deploy needs the name of an app", "berth deploy NAME --image IMAGE");
  if (word !== undefined && flags.name !== undefined && word !== flags.name)
    throw new UsageError(
      `two names are given for the app, ${word} and ${flags.name}`,
      "give only one of them",
    );
  return parseAppName(name);
}

async function deployImage(
  cli: Cli,
  name: string,
  image: string,
  flags: DeployFlags,
): Promise<void> {
  const client = await cli.connect();
  const baseline = await readBaseline(client, name);
  const write = await client.apps.deploy(
    name,
    { image },
    { dryRun: flags.dryRun === true, force: flags.force === true },
  );
  const phrases = { done: `is deploying ${image}`, already: "already has that image" };
  await finishDeploy(cli, client, name, write, baseline, flags, phrases);
}
