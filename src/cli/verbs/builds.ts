import type { Command } from "commander";
import type { Client } from "../../client/rest/client.ts";
import type { BuildView } from "../../resources/wire/builds.ts";
import type { Cli } from "../cli.ts";
import { exitCodes, UsageError } from "../cli-errors.ts";
import {
  addExamples,
  integerBetween,
  isDocumentFormat,
  type OutputFormat,
  outputOption,
} from "../command-options.ts";
import { printDocument, printListing } from "../output/print.ts";
import { parseAppName } from "../resource-references.ts";

interface BuildsFlags {
  readonly log?: boolean;
  readonly follow?: boolean;
  readonly cancel?: boolean;
  readonly limit?: number;
  readonly output?: OutputFormat;
}

export function addBuilds(program: Command, cli: Cli): void {
  addExamples(
    program
      .command("builds")
      .summary("list the builds of an app, show the log of one, or cancel it")
      .description(
        "Lists the builds of an app, newest first. Without a number, --log, -f and --cancel apply to the newest build.",
      )
      .argument("<app>", "name of an app")
      .argument("[build]", "number of a build")
      .option("--log", "show the log of the build")
      .option("-f, --follow", "follow the log until the build ends; exits with 1 if it failed")
      .option("--cancel", "cancel the build")
      .option("--limit <number>", "maximum number of builds in the list", integerBetween(1, 1000))
      .addOption(outputOption()),
    [
      ["berth builds shop", "list all builds of an app"],
      ["berth builds shop 12", "show one build"],
      ["berth builds shop --log", "show the log of the newest build"],
      ["berth builds shop -f", "follow the log of the newest build"],
      ["berth builds shop 12 --cancel", "cancel a build that waits or runs"],
    ],
  ).action(async (word: string, number: string | undefined, flags: BuildsFlags) => {
    const app = parseAppName(word);
    const shouldShowLog = flags.log === true || flags.follow === true;
    if (shouldShowLog && flags.cancel === true)
      throw new UsageError("--cancel cannot be combined with --log or --follow");
    const id = number === undefined ? undefined : parseBuildId(number);
    const client = await cli.connect();
    const { createBuildListing, describeBuild } = await import("../views/builds.ts");
    if (id === undefined && !shouldShowLog && flags.cancel !== true) {
      const query = flags.limit === undefined ? {} : { limit: flags.limit };
      const list = await client.builds.list(app, query);
      return printListing(
        cli,
        createBuildListing(app, list, cli.colours, cli.io.now()),
        flags.output,
      );
    }
    const build = await findBuild(client, app, id);
    if (flags.cancel === true) {
      const ended = await client.builds.cancel(app, build.id);
      return cli.print(`build ${ended.id} of app/${app} ${ended.state}`);
    }
    if (flags.follow === true) return followBuildLog(cli, client, build);
    if (flags.log === true) {
      const { lines } = await client.builds.log(app, build.id);
      if (lines.length === 0) cli.note(`the log of build ${build.id} is empty`);
      else await cli.print(lines.join("\n"));
      return;
    }
    if (isDocumentFormat(flags.output)) return printDocument(cli, build, flags.output);
    const options = { colours: cli.colours, nowMs: cli.io.now(), width: cli.io.columns };
    await cli.print(flags.output === "name" ? String(build.id) : describeBuild(build, options));
  });
}

function parseBuildId(text: string): number {
  if (!/^[1-9]\d{0,14}$/.test(text))
    throw new UsageError(`"${text}" is not the number of a build`, "berth builds APP lists them");
  return Number(text);
}

async function findBuild(client: Client, app: string, id: number | undefined): Promise<BuildView> {
  if (id !== undefined) return client.builds.get(app, id);
  const [newest] = (await client.builds.list(app, { limit: 1 })).builds;
  if (newest !== undefined) return newest;
  throw new UsageError(
    `app "${app}" has no builds yet`,
    `\`berth deploy DIR --name ${app}\` starts one`,
  );
}

async function followBuildLog(cli: Cli, client: Client, build: BuildView): Promise<void> {
  const log = client.builds.followLog(build.app, build.id);
  for (;;) {
    const line = await log.next();
    if (line.done !== true) {
      await cli.print(line.value);
      continue;
    }
    const ended = line.value;
    if (ended === undefined) cli.note("the server has ended the stream");
    else cli.note(`build ${ended.id} ${ended.state}`);
    if (ended?.state !== "succeeded") cli.exitCode = exitCodes.failed;
    return;
  }
}
