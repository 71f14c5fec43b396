import type { Command } from "commander";
import type { LogLineView } from "../../resources/wire/apps.ts";
import type { Cli } from "../cli.ts";
import { addExamples, integerBetween } from "../command-options.ts";
import { parseAppName } from "../resource-references.ts";

interface LogFlags {
  readonly follow?: boolean;
  readonly tail: number;
  readonly since?: string;
  readonly timestamps?: boolean;
  readonly prefix?: boolean;
}

export function addLogs(program: Command, cli: Cli): void {
  addExamples(
    program
      .command("logs")
      .summary("show what an app has written")
      .description(
        "Shows the lines that an app has written, over all its containers and over redeploys, oldest first.",
      )
      .argument("<app>", "name of an app")
      .option("-f, --follow", "go on with new lines")
      .option(
        "--tail <lines>",
        "how many lines from the end, 1 to 10000",
        integerBetween(1, 10_000),
        100,
      )
      .option("--since <when>", "only after this: 10m, or a time such as 2026-11-20T12:00:00Z")
      .option("-t, --timestamps", "put the time before each line")
      .option("--prefix", "put the container before each line"),
    [
      ["berth logs hello", "the last 100 lines"],
      ["berth logs hello -f", "and go on"],
      ["berth logs hello --since 10m -t", "ten minutes, with times"],
    ],
  ).action(async (word: string, flags: LogFlags) => {
    const name = parseAppName(word);
    const client = await cli.connect();
    const query = {
      tail: flags.tail,
      ...(flags.since === undefined ? {} : { since: flags.since }),
    };
    if (flags.follow === true) {
      for await (const line of client.apps.followLogs(name, query))
        await cli.print(formatLogLine(cli, line, flags));
      return;
    }
    const { lines } = await client.apps.logs(name, query);
    if (lines.length > 0)
      await cli.print(lines.map((line) => formatLogLine(cli, line, flags)).join("\n"));
    else
      cli.note(
        `app "${name}" has written nothing${flags.since === undefined ? "" : " since then"}`,
      );
  });
}

/** The message as the app wrote it: its colours are its own. */
function formatLogLine(cli: Cli, line: LogLineView, flags: LogFlags): string {
  const before = [
    ...(flags.timestamps === true ? [line.time] : []),
    ...(flags.prefix === true ? [`[${line.container}]`] : []),
  ].join(" ");
  return before === "" ? line.message : `${cli.colours.dim(before)} ${line.message}`;
}
