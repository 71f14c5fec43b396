import type { IndexReport } from "../../client/bus/context-wire.ts";
import type { Cli } from "../cli.ts";
import { getStatusColour } from "../colours.ts";
import { formatTable } from "../output/table.ts";
import { sanitizeLine } from "./untrusted-text.ts";

export async function printIndexState(cli: Cli, report: IndexReport): Promise<void> {
  const { state, documents, chunks, sources, vectors } = report;
  const counts = `${formatCount(documents, "document")} in ${formatCount(chunks, "passage")}`;
  const ofVectors = vectors === undefined ? "" : `, ${formatVectors(vectors)}`;
  await cli.print(`${sanitizeLine(state)}: ${counts}${ofVectors}`);
  if (vectors?.message !== undefined) await cli.print(sanitizeLine(vectors.message));
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

/** Returns the reason why a hybrid search has compared words only. */
export function explainLexical(vectors: IndexReport["vectors"]): string {
  if (vectors === undefined) return "the companion has no embedding model";
  if (vectors.message !== undefined) return sanitizeLine(vectors.message);
  return `${formatVectors(vectors)}, but at least half of the passages need a vector`;
}

/** Formats the state of the vectors, such as "vectors 120 of 301 by minilm". */
function formatVectors({ embedded, passages, model }: NonNullable<IndexReport["vectors"]>): string {
  return `vectors ${embedded} of ${passages}${model === undefined ? "" : ` by ${sanitizeLine(model)}`}`;
}

function formatCount(number: number, one: string): string {
  return `${number} ${one}${number === 1 ? "" : "s"}`;
}
