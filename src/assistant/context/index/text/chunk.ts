import { type DocumentText, HEADING_SEPARATOR } from "./document-text.ts";

export interface ChunkText {
  /** The document's title and the headings above the passage. */
  readonly title: string;
  readonly text: string;
}

/** The length of a passage in characters, chosen by the measurements in docs/context.md. */
export const CHUNK_CHARACTERS = 600;
/** The maximum length of a title, which each passage repeats. */
const TITLE_MAX = 300;
/** Matches the end of a sentence, where a long paragraph is split. */
const sentenceEnd = /[.!?。！？]["')\]]?\s/g;

/**
 * Splits a document into passages of about `size` characters, preferably between paragraphs, then between lines,
 * sentences and words. Each part of the text is in exactly one passage.
 */
export function splitIntoChunks(document: DocumentText, size = CHUNK_CHARACTERS): ChunkText[] {
  const chunks: ChunkText[] = [];
  const { sections } = document;
  for (const [at, { heading, text }] of sections.entries()) {
    const title = buildChunkTitle(document.title, heading);
    const found = packPassages(text, size);
    for (const piece of found) chunks.push({ title, text: piece });
    // A heading without text becomes a passage of its own, unless a subsection follows, whose chunk title contains the
    // heading.
    const next = sections[at + 1]?.heading.startsWith(`${heading}${HEADING_SEPARATOR}`) === true;
    const own = heading.split(HEADING_SEPARATOR).at(-1) ?? "";
    if (found.length === 0 && own !== "" && !next)
      for (const piece of packPassages(own, size)) chunks.push({ title, text: piece });
  }
  return chunks;
}

function buildChunkTitle(title: string, heading: string): string {
  if (heading === "" || heading === title) return title.slice(0, TITLE_MAX);
  const below = heading.startsWith(`${title}${HEADING_SEPARATOR}`)
    ? heading
    : `${title}${HEADING_SEPARATOR}${heading}`;
  return below.slice(0, TITLE_MAX).replaceAll(/\p{Surrogate}/gu, "\ufffd");
}

function packPassages(text: string, size: number): string[] {
  const found: string[] = [];
  let held = "";
  const add = (piece: string, glue: string) => {
    if (held !== "" && held.length + glue.length + piece.length > size) {
      found.push(held);
      held = "";
    }
    held = held === "" ? piece : `${held}${glue}${piece}`;
  };
  for (const paragraph of text.split(/\n[ \t]*\n/)) {
    if (paragraph.trim() === "") continue;
    if (paragraph.length <= size) add(paragraph, "\n\n");
    else
      for (const [at, piece] of splitParagraph(paragraph, size).entries())
        add(piece, at === 0 ? "\n\n" : "\n");
  }
  // A short remainder of the document is appended to the previous passage.
  const last = found.at(-1);
  if (last !== undefined && held.length < size / 8 && last.length + held.length < size * 1.25) {
    found[found.length - 1] = `${last}\n\n${held}`;
    held = "";
  }
  return (held === "" ? found : [...found, held]).map((it) => it.trim()).filter((it) => it !== "");
}

/** Splits a long paragraph into lines, and long lines into sentences or words. */
function splitParagraph(paragraph: string, size: number): string[] {
  return paragraph
    .split("\n")
    .flatMap((line) => (line.length <= size ? [line] : splitLine(line, size)));
}

function splitLine(line: string, size: number): string[] {
  const found: string[] = [];
  let at = 0;
  while (line.length - at > size) {
    const window = line.slice(at, at + size);
    const sentences = [...window.matchAll(sentenceEnd)];
    const last = sentences.at(-1);
    const sentence = last ? last.index + last[0].length : 0;
    const space = window.lastIndexOf(" ") + 1;
    let end = sentence > size / 3 ? sentence : space > size / 3 ? space : size;
    // The cut is moved if it would split a surrogate pair.
    if (/[\ud800-\udbff]/.test(window[end - 1] ?? "")) end -= 1;
    found.push(window.slice(0, end));
    at += end;
  }
  found.push(line.slice(at));
  return found;
}
