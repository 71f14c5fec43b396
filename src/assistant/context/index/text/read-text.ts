import { gunzipSync } from "node:zlib";
import { type ChunkText, splitIntoChunks } from "./chunk.ts";
import { decodeText } from "./decode-text.ts";
import type { DocumentText } from "./document-text.ts";
import type { FileKind } from "./file-kind.ts";
import { readHtml } from "./html.ts";
import { readManPage } from "./man-page.ts";
import { readMarkdown } from "./markdown.ts";

export interface ExtractedText {
  readonly title: string;
  readonly chunks: readonly ChunkText[];
  /** All of it as it stands in the file, unpacked. */
  readonly source: string;
}

/** A page of the manual unpacks to several times its size, and to no more than this many bytes. */
const UNPACKED_MAX_BYTES = 8 * 1024 * 1024;

/**
 * The passages of a file, by its kind and name; undefined where it is no text, or none that is read.
 * `name` is the last part of the path. Never throws for what a file holds.
 */
export function readText(
  bytes: Uint8Array,
  name: string,
  kind: FileKind,
): ExtractedText | undefined {
  if (kind === "skipped") return undefined;
  const isPacked = name.toLowerCase().endsWith(".gz");
  const unpacked = isPacked ? gunzip(bytes) : bytes;
  const written = unpacked && decodeText(unpacked);
  if (written === undefined) return undefined;
  const document = parseDocument(written, name, kind, isPacked);
  return document && { title: document.title, chunks: splitIntoChunks(document), source: written };
}

function parseDocument(
  text: string,
  name: string,
  kind: FileKind,
  isPacked: boolean,
): DocumentText | undefined {
  const title = titleFromName(name);
  if (kind === "markdown") return readMarkdown(text, title);
  if (kind === "html") return readHtml(text, title);
  // `release.1` may be a text all the same, while of packed files only pages of the manual are read.
  const page = kind === "man" ? readManPage(text) : undefined;
  if (page || (kind === "man" && isPacked)) return page;
  return { title: kind === "code" ? name : title, sections: [{ heading: "", text }] };
}

function gunzip(bytes: Uint8Array): Uint8Array | undefined {
  try {
    return gunzipSync(bytes, { maxOutputLength: UNPACKED_MAX_BYTES });
  } catch {
    return undefined;
  }
}

/** `meeting-notes_2026.txt` is `meeting notes 2026`. */
function titleFromName(name: string): string {
  const bare = name.replace(/(?<=.)\.[A-Za-z0-9]{1,8}$/, "");
  return bare.replaceAll(/[_-]+/g, " ").trim() || name;
}
