import { type ChunkText, splitIntoChunks } from "./chunk.ts";
import { decodeText } from "./decode-text.ts";
import type { DocumentText } from "./document-text.ts";
import type { FileKind } from "./file-kind.ts";
import { readHtml } from "./html.ts";
import { readMarkdown } from "./markdown.ts";

export interface ExtractedText {
  readonly title: string;
  readonly chunks: readonly ChunkText[];
  /** The decoded text of the whole file. */
  readonly source: string;
}

/**
 * Extracts the passages of a file. `name` is the last part of its path. Returns undefined for a file without text, or
 * of a kind that is not indexed. Never throws, whatever the content.
 */
export function readText(
  bytes: Uint8Array,
  name: string,
  kind: FileKind,
): ExtractedText | undefined {
  if (kind === "skipped") return undefined;
  const source = decodeText(bytes);
  if (source === undefined) return undefined;
  const document = parseDocument(source, name, kind);
  return { title: document.title, chunks: splitIntoChunks(document), source };
}

function parseDocument(text: string, name: string, kind: FileKind): DocumentText {
  const title = titleFromName(name);
  if (kind === "markdown") return readMarkdown(text, title);
  if (kind === "html") return readHtml(text, title);
  return { title: kind === "code" ? name : title, sections: [{ heading: "", text }] };
}

/** Derives a title from a file name: `meeting notes 2026` from `meeting-notes_2026.txt`. */
function titleFromName(name: string): string {
  const bare = name.replace(/(?<=.)\.[A-Za-z0-9]{1,8}$/, "");
  return bare.replaceAll(/[_-]+/g, " ").trim() || name;
}
