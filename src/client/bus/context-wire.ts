import {
  getField,
  getNumberOrUndefined,
  getText,
  getTextOrUndefined,
  toItems,
  unexpectedAnswer,
} from "./json-fields.ts";

/**
 * This module parses the parts of Context1's JSON that the command line shows. All texts in that JSON are untrusted.
 */

export interface HitRow {
  readonly source: string;
  readonly title: string;
  readonly uri: string;
  readonly snippet: string;
  readonly score: number;
  readonly mode: string;
}

export interface IndexReport {
  readonly state: string;
  readonly documents: number;
  readonly chunks: number;
  readonly sources: readonly {
    readonly name: string;
    readonly documents: number;
    readonly state: string;
    readonly message: string | undefined;
  }[];
  /** The state of the vectors; undefined if the companion has no embedding model. */
  readonly vectors:
    | {
        readonly model: string | undefined;
        readonly embedded: number;
        readonly passages: number;
        readonly message: string | undefined;
      }
    | undefined;
}

export function parseHitRows(document: unknown): readonly HitRow[] {
  if (!Array.isArray(document)) throw unexpectedAnswer(undefined);
  return document.map((hit: unknown) => ({
    source: getText(hit, "source"),
    title: getText(hit, "title"),
    uri: getText(hit, "uri"),
    snippet: getText(hit, "snippet"),
    score: getNumberOrUndefined(hit, "score") ?? 0,
    mode: getText(hit, "mode"),
  }));
}

export function parseIndexReport(document: unknown): IndexReport {
  return {
    state: getText(document, "state"),
    documents: getNumberOrUndefined(document, "documents") ?? 0,
    chunks: getNumberOrUndefined(document, "chunks") ?? 0,
    sources: toItems(getField(document, "sources")).map((source) => ({
      name: getText(source, "name"),
      documents: getNumberOrUndefined(source, "documents") ?? 0,
      state: getText(source, "state"),
      message: getTextOrUndefined(source, "message"),
    })),
    vectors: parseVectors(getField(document, "vectors")),
  };
}

/**
 * A companion of an earlier version does not report the state of the vectors, and one without an embedding model
 * reports null.
 */
function parseVectors(vectors: unknown): IndexReport["vectors"] {
  if (typeof vectors !== "object" || vectors === null) return undefined;
  return {
    model: getTextOrUndefined(vectors, "model"),
    embedded: getNumberOrUndefined(vectors, "embedded") ?? 0,
    passages: getNumberOrUndefined(vectors, "passages") ?? 0,
    message: getTextOrUndefined(vectors, "message"),
  };
}

export interface MemoryAppRow {
  readonly app: string;
  readonly keys: number;
  readonly bytes: number;
}

export function parseMemoryApps(document: unknown): readonly MemoryAppRow[] {
  if (!Array.isArray(document)) throw unexpectedAnswer(undefined);
  return document.map((row: unknown) => ({
    app: getText(row, "app"),
    keys: getNumberOrUndefined(row, "keys") ?? 0,
    bytes: getNumberOrUndefined(row, "bytes") ?? 0,
  }));
}

/** Parses the memory of one app: its values by their keys, sorted by key. */
export function parseMemoryEntries(document: unknown): readonly (readonly [string, string])[] {
  if (typeof document !== "object" || document === null || Array.isArray(document))
    throw unexpectedAnswer(undefined);
  return Object.entries(document)
    .flatMap(([key, value]: [string, unknown]) =>
      typeof value === "string" ? [[key, value] as const] : [],
    )
    .toSorted(([left], [right]) => (left < right ? -1 : 1));
}
