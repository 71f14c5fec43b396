import type { Command } from "commander";
import type { EventView } from "../../resources/wire/events.ts";
import type { Cli } from "../cli.ts";
import {
  addExamples,
  integerBetween,
  type OutputFormat,
  outputOption,
} from "../command-options.ts";
import { formatTime } from "../format-time.ts";
import { createListing, printListing } from "../output/print.ts";
import { parseReferences } from "../resource-references.ts";
import { createEventColumns, formatEventObject } from "../views/events.ts";

interface EventFlags {
  readonly watch?: boolean;
  readonly limit: number;
  readonly output?: OutputFormat;
  readonly warnings?: boolean;
}

export function addEvents(program: Command, cli: Cli): void {
  addExamples(
    program
      .command("events")
      .summary("show what has happened, and follow it")
      .description("Shows events of apps and of the server, the newest last.")
      .argument("[kind]", "only of this: KIND/NAME, KIND NAME, or the name of an app")
      .argument("[name]")
      .option("-w, --watch", "go on with new events")
      .option("--warnings", "warnings only")
      .option("--limit <count>", "how many at most", integerBetween(1, 1000), 50)
      .addOption(outputOption()),
    [
      ["berth events", "the last events of everything"],
      ["berth events hello", "those of the app hello"],
      ["berth events -w --warnings", "follow what goes wrong"],
    ],
  ).action(async (kindWord: string | undefined, name: string | undefined, flags: EventFlags) => {
    const words = [kindWord, name].filter((word) => word !== undefined);
    const [about] = parseReferences(words, true);
    const subject = about?.names[0];
    const filter = {
      ...(about === undefined ? {} : { kind: about.kind }),
      ...(subject === undefined ? {} : { name: subject }),
    };
    const client = await cli.connect();
    const wanted = (event: EventView) => flags.warnings !== true || event.type === "Warning";
    const abort = new AbortController();
    // Opened before the list is read, so that no event falls between the two.
    const stream =
      flags.watch === true ? client.events.watch({ ...filter, signal: abort.signal }) : undefined;
    const next = stream?.next();
    try {
      const { events } = await client.events.list({ ...filter, limit: flags.limit });
      await printEvents(cli, events.filter(wanted).toReversed(), flags);
      if (stream === undefined || next === undefined) return;
      for (let item = await next; item.done !== true; item = await stream.next()) {
        const change = item.value;
        if (change.reset) cli.note("some events were lost on the way");
        else if (change.type === "event" && change.event !== undefined && wanted(change.event))
          await cli.print(formatLiveEvent(cli, change.event, flags.output));
      }
      cli.note("the server has ended the stream");
    } finally {
      abort.abort();
      await next?.catch(() => {});
    }
  });
}

async function printEvents(
  cli: Cli,
  events: readonly EventView[],
  flags: EventFlags,
): Promise<void> {
  // One document a line, so that what is followed can be read line by line.
  if (flags.watch === true && flags.output === "json") {
    if (events.length > 0) await cli.print(events.map((event) => JSON.stringify(event)).join("\n"));
    return;
  }
  const now = cli.io.now();
  await printListing(
    cli,
    createListing({
      rows: events,
      columns: createEventColumns(cli.colours, now, true),
      wideColumns: [
        { header: "FIRST SEEN", value: (event) => formatTime(event.first_time, now) },
        { header: "ID", value: (event) => String(event.id) },
      ],
      name: formatEventObject,
      document: { events, total: events.length },
      empty: "no events",
    }),
    flags.output,
  );
}

function formatLiveEvent(cli: Cli, event: EventView, format: OutputFormat | undefined): string {
  if (format === "json") return JSON.stringify(event);
  if (format === "yaml") return `---\n${JSON.stringify(event)}`;
  if (format === "name") return formatEventObject(event);
  const type = event.type === "Warning" ? cli.colours.yellow(event.type) : event.type;
  const time = cli.colours.dim(event.last_time.slice(11, 19));
  return `${time}   ${type}   ${event.reason}   ${formatEventObject(event)}   ${event.message}`;
}
