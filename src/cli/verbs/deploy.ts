import type { Command } from "commander";
import { BerthError } from "../../base/errors.ts";
import { reportWrite, type WriteFlags } from "../app-write.ts";
import type { Cli } from "../cli.ts";
import { UsageError } from "../failure.ts";
import { appName } from "../kind-names.ts";
import { outputOption, withExamples, withWait } from "../options.ts";

interface DeployFlags extends WriteFlags {
  readonly image?: string;
  readonly git?: string;
  readonly ref?: string;
  readonly dryRun?: boolean;
  readonly force?: boolean;
}

export function addDeploy(program: Command, cli: Cli): void {
  const command = program
    .command("deploy")
    .summary("give an app a new image")
    .description(
      "Gives an app a new image, and rolls it out. Builds from a folder or from git come with a later release.",
    )
    .argument("[app]", "name of the app, or a folder to build")
    .option("--image <reference>", "image to deploy, such as nginx:1.27")
    .option("--git <url>", "repository to build (not there yet)")
    .option("--ref <ref>", "with --git: branch, tag or commit")
    .option("--dry-run", "tell what would happen, and change nothing")
    .option("--force", "also where a spec file owns the image")
    .addOption(outputOption());
  withExamples(withWait(command), [
    ["berth deploy hello --image nginx:1.28", "a new image"],
    ["berth deploy hello --image nginx:1.28 --wait", "and wait until it serves"],
    ["berth deploy hello --image nginx:1.28 --dry-run", "see what that would do"],
  ]).action(async (word: string | undefined, flags: DeployFlags) => {
    if (flags.image !== undefined && flags.git !== undefined)
      throw new UsageError("--image and --git exclude each other");
    if (flags.image === undefined && flags.git === undefined)
      throw new BerthError(
        "not_implemented",
        "building an image from a folder is not there yet; it comes with the next release",
        { hint: `\`berth deploy ${word ?? "NAME"} --image IMAGE\`` },
      );
    if (word === undefined)
      throw new UsageError("deploy needs the name of an app", "berth deploy NAME --image IMAGE");
    const name = appName(word);
    const client = await cli.connect();
    const body =
      flags.git === undefined
        ? { image: flags.image ?? "" }
        : { git: { url: flags.git, ...(flags.ref === undefined ? {} : { ref: flags.ref }) } };
    const write = await client.apps.deploy(name, body, {
      dryRun: flags.dryRun === true,
      force: flags.force === true,
    });
    const done = `deploys ${flags.image ?? flags.git ?? ""}`;
    await reportWrite(cli, client, name, write, { done, already: "has that image already" }, flags);
  });
}
