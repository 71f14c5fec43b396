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
      .summary("list events, and follow new ones")
      .description("Lists events of resources and of the server, newest last.")
      .argument("[kind]", "resource to filter by: KIND/NAME, KIND NAME, or the name of an app")
      .argument("[name]", "name of the resource")
      .option("-w, --watch", "continue with new events")
      .option("--warnings", "list only warnings")
      .option("--limit <count>", "maximum number of events", integerBetween(1, 1000), 50)
      .addOption(outputOption()),
    [
      ["berth events", "list the last events"],
      ["berth events hello", "list the events of the app hello"],
      ["berth events -w --warnings", "follow the warnings"],
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
    // The stream of new events is opened before the list of earlier events is read, so that no event is missed between
    // the two.
    const stream =
      flags.watch === true ? client.events.watch({ ...filter, signal: abort.signal }) : undefined;
    const next = stream?.next();
    try {
      const { events } = await client.events.list({ ...filter, limit: flags.limit });
      await printEvents(cli, events.filter(wanted).toReversed(), flags);
      if (stream === undefined || next === undefined) return;
      for (let item = await next; item.done !== true; item = await stream.next()) {
        const change = item.value;
        if (change.reset) cli.note("some events were missed");
        else if (change.type === "event" && change.event !== undefined && wanted(change.event))
          await cli.print(formatLiveEvent(cli, change.event, flags.output));
      }
      cli.note("the server has ended the stream of events");
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
  // Prints one JSON document per line, so that a script can read the stream line by line.
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
