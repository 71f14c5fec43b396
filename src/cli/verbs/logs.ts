import type { Command } from "commander";
import type { LogLineView, SkippedLogLines } from "../../resources/wire/apps.ts";
import { cleanLogLine } from "../clean-output.ts";
import type { Cli } from "../cli.ts";
import { addExamples, integerBetween } from "../command-options.ts";
import { parseAppName } from "../resource-references.ts";
import { followStackLogs, readStackLogs } from "../stacks/stack-logs.ts";
import { parseStackNames } from "../stacks/stack-words.ts";

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
      .summary("show the log of an app")
      .description(
        "Shows the log lines of an app, oldest first, from all its containers, including those of earlier revisions.",
      )
      .argument("<app>", "name of an app, or stack/NAME for all apps of a stack")
      .option("-f, --follow", "continue with new lines")
      .option(
        "--tail <lines>",
        "number of lines from the end, 1 to 10000",
        integerBetween(1, 10_000),
        100,
      )
      .option(
        "--since <when>",
        "show only lines after this: 10m, or a time such as 2026-11-20T12:00:00Z",
      )
      .option("-t, --timestamps", "print the time before each line")
      .option("--prefix", "print the container before each line"),
    [
      ["berth logs hello", "show the last 100 lines"],
      ["berth logs hello -f", "show the last lines, and follow new ones"],
      ["berth logs stack/blog -f", "follow all apps of a stack"],
      ["berth logs hello --since 10m -t", "show the last ten minutes, with times"],
    ],
  ).action(async (word: string, flags: LogFlags) => {
    const [stack] = parseStackNames([word], "logs") ?? [];
    const name = stack ?? parseAppName(word);
    const client = await cli.connect();
    const query = {
      tail: flags.tail,
      ...(flags.since === undefined ? {} : { since: flags.since }),
    };
    // For a stack, each line begins with the name of its container, because it would otherwise not show which app wrote
    // it.
    const shown = stack === undefined ? flags : { ...flags, prefix: true };
    if (flags.follow === true) {
      const onSkipped = ({ skipped, container }: SkippedLogLines) =>
        cli.note(
          `${skipped} ${skipped === 1 ? "line" : "lines"} of ${container} skipped: they were written faster than they were read`,
        );
      if (stack !== undefined) {
        const print = (line: LogLineView) => printLog(cli, formatLogLine(cli, line, shown));
        return followStackLogs(client, stack, { ...query, onSkipped }, print);
      }
      for await (const line of client.apps.followLogs(name, { ...query, onSkipped }))
        await printLog(cli, formatLogLine(cli, line, flags));
      return;
    }
    const lines =
      stack === undefined
        ? (await client.apps.logs(name, query)).lines
        : await readStackLogs(client, stack, query);
    if (lines.length > 0)
      await printLog(cli, lines.map((line) => formatLogLine(cli, line, shown)).join("\n"));
    else {
      const what = stack === undefined ? `app "${name}"` : `stack "${name}"`;
      cli.note(`${what} has no log lines${flags.since === undefined ? "" : " since then"}`);
    }
  });
}

/** Writes the log as bytes, so that a pipe gets exactly what the app has written. */
async function printLog(cli: Cli, text: string): Promise<void> {
  await cli.io.write(Buffer.from(`${text}\n`));
}

/** Formats a log line. At a terminal, removes all control sequences from the message except colours. */
function formatLogLine(cli: Cli, line: LogLineView, flags: LogFlags): string {
  const before = [
    ...(flags.timestamps === true ? [line.time] : []),
    ...(flags.prefix === true ? [`[${line.container}]`] : []),
  ].join(" ");
  const message = cli.io.outputIsTerminal ? cleanLogLine(line.message) : line.message;
  return before === "" ? message : `${cli.colours.dim(before)} ${message}`;
}
