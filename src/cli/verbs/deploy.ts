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
import { reportAppWrite } from "../deploy/report-app-write.ts";
import { parseAppName } from "../resource-references.ts";

export function addDeploy(program: Command, cli: Cli): void {
  const command = program
    .command("deploy")
    .summary("build a folder or a repository and roll it out, or a new image")
    .description(
      "Uploads a folder, builds it and rolls it out; makes the app where there is none. What .dockerignore names stays here. With --git the server builds from a repository, with --image it takes an image as it is. The name of an app in place of a folder looks at its source anew.",
    )
    .argument(
      "[folder]",
      "folder to build; with --image and --git the name of the app (default: .)",
    )
    .option("--name <app>", "name of the app; default: that of the folder or the repository")
    .option("--port <port>", "port on which the app listens", integerBetween(1, 65_535))
    .option("--domain <name>", "host name; default: NAME.<base domain>")
    .option(
      "-e, --env <NAME=value>",
      "environment variable; NAME=secret:SECRET/KEY takes it from a secret; can be repeated",
      collectValues,
    )
    .option("--image <reference>", "image to deploy, such as nginx:1.27")
    .option("--git <url>", "repository to build")
    .option("--ref <ref>", "with --git: branch, tag or commit")
    .option("--path <path>", "with --git: folder of the repository")
    .option("--credential <secret>", "with --git: Secret to fetch with")
    .option("-q, --quiet", "without the log of the build")
    .option("--dry-run", "tell what would happen, and change nothing")
    .option("--force", "also where a spec file owns what changes")
    .addOption(outputOption());
  addExamples(
    addWaitOptions(command).option("--no-wait", "return once the server has the source"),
    [
      ["berth deploy", "build the folder you are in, and follow it until it serves"],
      ["berth deploy ./shop --port 8080", "another folder, which says no port itself"],
      ["berth deploy shop --git https://example.org/shop.git --ref v2", "a tag of a repository"],
      ["berth deploy shop", "the newest of the repository that shop is built from"],
      ["berth deploy hello --image nginx:1.28 --wait", "an image, and wait until it serves"],
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
      throw new UsageError(`--${key} goes with --git only`);
  if (flags.image === undefined) return;
  for (const key of ["port", "domain", "env"] as const)
    if (flags[key] !== undefined)
      throw new UsageError(
        `--${key} does not go with --image`,
        "`berth create` makes an app of an image, `berth edit` changes one",
      );
}

function resolveAppName(word: string | undefined, flags: DeployFlags): string {
  const name = word ?? flags.name;
  if (name === undefined)
    throw new UsageError("deploy needs the name of an app", "berth deploy NAME --image IMAGE");
  if (word !== undefined && flags.name !== undefined && word !== flags.name)
    throw new UsageError(`the app is called both ${word} and ${flags.name}`, "give one of them");
  return parseAppName(name);
}

async function deployImage(
  cli: Cli,
  name: string,
  image: string,
  flags: DeployFlags,
): Promise<void> {
  const client = await cli.connect();
  const write = await client.apps.deploy(
    name,
    { image },
    { dryRun: flags.dryRun === true, force: flags.force === true },
  );
  const words = { done: `deploys ${image}`, already: "has that image already" };
  await reportAppWrite(cli, client, name, write, words, flags);
}
