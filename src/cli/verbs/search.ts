import type { Command } from "commander";
import type { Cli } from "../cli.ts";
import { UsageError } from "../cli-errors.ts";
import {
  addExamples,
  addJsonOptions,
  collectValues,
  integerBetween,
  isJsonOutput,
  type JsonFlags,
} from "../command-options.ts";

interface SearchFlags extends JsonFlags {
  readonly limit?: number;
  readonly hybrid?: boolean;
  readonly scope?: readonly string[];
  readonly state?: boolean;
}

const LIMIT_MAX = 50;

export function addSearch(program: Command, cli: Cli): void {
  addExamples(
    addJsonOptions(
      program
        .command("search")
        .summary("search the documents that your companion has indexed")
        .description(
          "Searches the folders that your companion indexes, and prints the best passages. The ledger records every search.",
        )
        .argument("[words...]", "words to search for")
        .option(
          "--limit <number>",
          `number of passages, 1 to ${LIMIT_MAX}; default: 3`,
          integerBetween(1, LIMIT_MAX),
        )
        .option("--hybrid", "also find passages by their meaning, not only by words")
        .option("--scope <scope>", "search only this scope; can be repeated", collectValues)
        .option("--state", "show the state of the index"),
    ),
    [
      ["berth search minutes of the last meeting", "print the three best passages"],
      [
        "berth search --hybrid --limit 10 backups",
        "print ten passages, found by their words or by their meaning",
      ],
      ["berth search --state", "show the state of the index"],
    ],
  ).action(async (words: string[], flags: SearchFlags) => {
    const query = words.join(" ").trim();
    if (flags.state === true ? query !== "" : query === "")
      throw new UsageError(
        flags.state === true
          ? "--state cannot be combined with words"
          : "search needs words to search for",
        "berth search WORDS..., or berth search --state",
      );
    const { withCompanion } = await import("../companion/connect-companion.ts");
    const { parseHitRows, parseIndexReport } = await import("../../client/bus/context-wire.ts");
    const { sanitizeJson } = await import("../companion/untrusted-text.ts");
    await withCompanion(cli, async ({ context }, signal) => {
      if (flags.state === true) {
        const document = await context.indexState(signal);
        if (isJsonOutput(flags)) return cli.print(sanitizeJson(document));
        const { printIndexState } = await import("../companion/show-index-state.ts");
        return printIndexState(cli, parseIndexReport(document));
      }
      const document = await context.search(
        { query, limit: flags.limit, isHybrid: flags.hybrid === true, scopes: flags.scope },
        signal,
      );
      const hits = parseHitRows(document);
      if (isJsonOutput(flags)) return cli.print(sanitizeJson(document));
      if (hits.length === 0)
        return cli.note("no passage found; `berth search --state` shows what is indexed");
      const { showHits } = await import("../companion/show-hits.ts");
      await cli.print(showHits(hits, query, cli.colours, cli.io.columns));
      if (flags.hybrid === true && hits.every(({ mode }) => mode === "lexical")) {
        const { explainLexical } = await import("../companion/show-index-state.ts");
        const { vectors } = parseIndexReport(await context.indexState(signal));
        cli.note(cli.errorColours.dim(`searched by words only: ${explainLexical(vectors)}`));
      }
    });
  });
}
