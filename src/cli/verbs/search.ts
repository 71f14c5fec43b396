import type { Command } from "commander";
import type { HitRow, IndexReport } from "../../client/bus/context-wire.ts";
import type { Cli } from "../cli.ts";
import { UsageError } from "../cli-errors.ts";
import { addExamples, collectValues, integerBetween } from "../command-options.ts";
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
  addExamples(
    program
      .command("search")
      .summary("search what your companion has indexed")
      .description(
        "Searches the folders that your companion indexes, and prints the passages that fit best. Every search is in the ledger.",
      )
      .argument("[words...]", "what to look for; plain words will do")
      .option("--limit <number>", `1 to ${LIMIT_MAX}; default: 3`, integerBetween(1, LIMIT_MAX))
      .option("--hybrid", "also by meaning, not by words alone")
      .option("--scope <scope>", "only in this; can be given again", collectValues)
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
    const { withCompanion } = await import("../companion/connect-companion.ts");
    const { parseHitRows, parseIndexReport } = await import("../../client/bus/context-wire.ts");
    const { sanitizeJson } = await import("../companion/untrusted-text.ts");
    await withCompanion(cli, async ({ context }, signal) => {
      if (flags.state === true) {
        const document = await context.indexState(signal);
        if (flags.json === true) return cli.print(sanitizeJson(document));
        return printState(cli, parseIndexReport(document));
      }
      const document = await context.search(
        { query, limit: flags.limit, isHybrid: flags.hybrid === true, scopes: flags.scope },
        signal,
      );
      const hits = parseHitRows(document);
      if (flags.json === true) return cli.print(sanitizeJson(document));
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
  const { sanitizeLine } = await import("../companion/untrusted-text.ts");
  const { getStatusColour } = await import("../colours.ts");
  const { state, documents, chunks, sources } = report;
  await cli.print(
    `${sanitizeLine(state)}: ${formatCount(documents, "document")} in ${formatCount(chunks, "passage")}`,
  );
  if (sources.length === 0) return;
  const table = formatTable(
    sources,
    [
      { header: "SOURCE", value: ({ name }) => sanitizeLine(name) },
      { header: "DOCUMENTS", value: (source) => String(source.documents), isRightAligned: true },
      {
        header: "STATE",
        value: (source) => sanitizeLine(source.state),
        colour: (text, source) => getStatusColour(cli.colours, source.state)(text),
      },
      { header: "MESSAGE", value: ({ message }) => sanitizeLine(message ?? ""), canShrink: true },
    ],
    { width: cli.io.columns },
  );
  await cli.print(`\n${table}`);
}

function formatCount(number: number, one: string): string {
  return `${number} ${one}${number === 1 ? "" : "s"}`;
}
