import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import {
  addExamples,
  integerBetween,
  type OutputFormat,
  outputOption,
} from "../command-options.ts";
import { formatTime } from "../format-time.ts";
import { formatShortValue } from "../output/format-sections.ts";
import { createListing, printListing } from "../output/print.ts";
import { formatReference, parseReferences } from "../resource-references.ts";

interface AuditFlags {
  readonly limit: number;
  readonly before?: number;
  readonly output?: OutputFormat;
}

export function addAudit(program: Command, cli: Cli): void {
  addExamples(
    program
      .command("audit")
      .summary("show who changed what, and when")
      .description(
        "Lists the writes, newest first: the time and the author of each, and the fields that it changed.",
      )
      .argument("[kind]", "resource to filter by: KIND/NAME, KIND NAME, or the name of an app")
      .argument("[name]", "name of the resource")
      .option("--limit <count>", "maximum number of entries", integerBetween(1, 1000), 50)
      .option("--before <id>", "list only entries before this one", integerBetween(1, 2 ** 40))
      .addOption(outputOption()),
    [
      ["berth audit", "list the last writes"],
      ["berth audit app hello -o yaml", "show every changed field of hello"],
    ],
  ).action(async (kindWord: string | undefined, name: string | undefined, flags: AuditFlags) => {
    const words = [kindWord, name].filter((word) => word !== undefined);
    const [about] = parseReferences(words, true);
    const subject = about?.names[0];
    const { entries, next_before: nextBefore } = await (await cli.connect()).events.audit({
      limit: flags.limit,
      ...(flags.before === undefined ? {} : { before: flags.before }),
      ...(about === undefined ? {} : { kind: about.kind }),
      ...(subject === undefined ? {} : { name: subject }),
    });
    const now = cli.io.now();
    await printListing(
      cli,
      createListing({
        rows: entries,
        columns: [
          { header: "TIME", value: (entry) => formatTime(entry.time, now), isVolatile: true },
          { header: "WHO", value: (entry) => entry.actor },
          { header: "ACTION", value: (entry) => entry.action },
          {
            header: "OBJECT",
            value: (entry) =>
              entry.kind === null ? entry.name : formatReference(entry.kind, entry.name),
          },
          {
            header: "CHANGES",
            value: (entry) =>
              entry.changes
                .map(({ path, after }) => `${path.slice(1)}=${formatShortValue(after)}`)
                .join(" "),
            canShrink: true,
          },
        ],
        wideColumns: [
          { header: "REQUEST", value: (entry) => entry.request_id ?? "" },
          { header: "ID", value: (entry) => String(entry.id) },
        ],
        name: (entry) => String(entry.id),
        document: { entries, next_before: nextBefore },
        empty: "no entries",
      }),
      flags.output,
    );
    if (nextBefore !== null && flags.output === undefined && cli.io.errorIsTerminal)
      cli.note(cli.errorColours.dim(`older entries: berth audit --before ${nextBefore}`));
  });
}
