import type { HitRow } from "../../client/bus/context-wire.ts";
import type { Colors } from "../colours.ts";
import { sanitizeBlock, sanitizeLine } from "./untrusted-text.ts";

const INDENT = "  ";
const words = /[\p{L}\p{N}]+/gu;
/**
 * The index compares word stems, so a word is also highlighted if it is the beginning of a word of the query, or the
 * reverse. The shorter of the two must have at least this length.
 */
const STEM_LENGTH = 5;

/** Formats each hit with its file and its passage, in which the words of the query are highlighted. */
export function showHits(
  hits: readonly HitRow[],
  query: string,
  colours: Colors,
  width: number | undefined,
): string {
  const wanted = [...query.matchAll(words)].map(([word]) => word.toLowerCase());
  return hits
    .map(({ title, uri, source, snippet }) => {
      const passage = snippet.replace(/\s+/g, " ").trim();
      const lines =
        width === undefined
          ? `${INDENT}${sanitizeLine(passage)}`
          : sanitizeBlock(passage, INDENT, width);
      return [
        colours.bold(sanitizeLine(title === "" ? uri : title)),
        `${INDENT}${colours.dim(`${sanitizeLine(uri)} (${sanitizeLine(source)})`)}`,
        highlightWords(lines, wanted, colours),
      ].join("\n");
    })
    .join("\n\n");
}

function highlightWords(text: string, wanted: readonly string[], colours: Colors): string {
  return text.replace(words, (word) =>
    wanted.some((term) => hasSameStem(word.toLowerCase(), term))
      ? colours.bold(colours.yellow(word))
      : word,
  );
}

function hasSameStem(word: string, term: string): boolean {
  if (word === term) return true;
  const length = Math.min(word.length, term.length);
  return length >= STEM_LENGTH && word.slice(0, length) === term.slice(0, length);
}
