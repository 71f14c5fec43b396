import type { Command } from "commander";
import type { HitRow, IndexReport } from "../../client/bus/context-wire.ts";
import type { Cli } from "../cli.ts";
import { UsageError } from "../failure.ts";
import { collect, integerBetween, withExamples } from "../options.ts";
import { formatTable } from "../output/table.ts";

interface SearchFlags {
  readonly limit?: number;
  readonly hybrid?: boolean;
  readonly scope?: readonly string[];
  readonly state?: boolean;
  readonly json?: boolean;
}

const LIMIT_MAX = 50;

export function addSearch(program: Command, cli: Cli): void {
  withExamples(
    program
      .command("search")
      .summary("search what your companion has indexed")
      .description(
        "Searches the folders that your companion indexes, and prints the passages that fit best. Every search is in the ledger.",
      )
      .argument("[words...]", "what to look for; plain words will do")
      .option("--limit <number>", `1 to ${LIMIT_MAX}; default: 3`, integerBetween(1, LIMIT_MAX))
      .option("--hybrid", "also by meaning, not by words alone")
      .option("--scope <scope>", "only in this; can be given again", collect)
      .option("--state", "tell what is indexed, and how far")
      .option("--json", "print what the companion says, as JSON"),
    [
      ["berth search minutes of the last meeting", "the three best passages"],
      ["berth search --hybrid --limit 10 backups", "ten, also by meaning"],
      ["berth search --state", "what is indexed"],
    ],
  ).action(async (words: string[], flags: SearchFlags) => {
    const query = words.join(" ").trim();
    if (flags.state === true ? query !== "" : query === "")
      throw new UsageError(
        flags.state === true ? "--state goes without words" : "search needs words to look for",
        "berth search WORDS..., or berth search --state",
      );
    const { withCompanion } = await import("../companion/connect.ts");
    const { hitRows, indexReport } = await import("../../client/bus/context-wire.ts");
    const { shownJson } = await import("../companion/untrusted-text.ts");
    await withCompanion(cli, async ({ context }, signal) => {
      if (flags.state === true) {
        const document = await context.indexState(signal);
        if (flags.json === true) return cli.print(shownJson(document));
        return printState(cli, indexReport(document));
      }
      const document = await context.search(
        { query, limit: flags.limit, isHybrid: flags.hybrid === true, scopes: flags.scope },
        signal,
      );
      const hits = hitRows(document);
      if (flags.json === true) return cli.print(shownJson(document));
      if (hits.length === 0)
        return cli.note("nothing fits; `berth search --state` tells what is indexed");
      const { showHits } = await import("../companion/show-hits.ts");
      await cli.print(showHits(hits, query, cli.colours, cli.io.columns));
      noteMode(cli, hits, flags);
    });
  });
}

/** Whoever asked for meaning and got words is told. */
function noteMode(cli: Cli, hits: readonly HitRow[], flags: SearchFlags): void {
  if (flags.hybrid === true && hits.every(({ mode }) => mode === "lexical"))
    cli.note(cli.errorColours.dim("by words alone: nothing that knows meaning answers just now"));
}

async function printState(cli: Cli, report: IndexReport): Promise<void> {
  const { shownLine } = await import("../companion/untrusted-text.ts");
  const { colourOfStatus } = await import("../colours.ts");
  const { state, documents, chunks, sources } = report;
  await cli.print(
    `${shownLine(state)}: ${count(documents, "document")} in ${count(chunks, "passage")}`,
  );
  if (sources.length === 0) return;
  const table = formatTable(
    sources,
    [
      { header: "SOURCE", value: ({ name }) => shownLine(name) },
      { header: "DOCUMENTS", value: (source) => String(source.documents), alignRight: true },
      {
        header: "STATE",
        value: (source) => shownLine(source.state),
        colour: (text, source) => colourOfStatus(cli.colours, source.state)(text),
      },
      { header: "MESSAGE", value: ({ message }) => shownLine(message ?? ""), shrinks: true },
    ],
    { width: cli.io.columns },
  );
  await cli.print(`\n${table}`);
}

function count(number: number, one: string): string {
  return `${number} ${one}${number === 1 ? "" : "s"}`;
}
