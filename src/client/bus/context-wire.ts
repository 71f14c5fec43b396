import {
  field,
  itemsOf,
  notTheCompanion,
  numberOrUndefined,
  textField,
  textOrUndefined,
} from "./json.ts";

/** The JSON of Context1, as far as the command line shows it. Every text in it is somebody else's. */

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
}

export function hitRows(document: unknown): readonly HitRow[] {
  if (!Array.isArray(document)) throw notTheCompanion(undefined);
  return document.map((hit: unknown) => ({
    source: textField(hit, "source"),
    title: textField(hit, "title"),
    uri: textField(hit, "uri"),
    snippet: textField(hit, "snippet"),
    score: numberOrUndefined(hit, "score") ?? 0,
    mode: textField(hit, "mode"),
  }));
}

export function indexReport(document: unknown): IndexReport {
  return {
    state: textField(document, "state"),
    documents: numberOrUndefined(document, "documents") ?? 0,
    chunks: numberOrUndefined(document, "chunks") ?? 0,
    sources: itemsOf(field(document, "sources")).map((source) => ({
      name: textField(source, "name"),
      documents: numberOrUndefined(source, "documents") ?? 0,
      state: textField(source, "state"),
      message: textOrUndefined(source, "message"),
    })),
  };
}

/** Key to value, ordered by key. */
export function memoryEntries(document: unknown): readonly (readonly [string, string])[] {
  if (typeof document !== "object" || document === null || Array.isArray(document))
    throw notTheCompanion(undefined);
  return Object.entries(document)
    .flatMap(([key, value]: [string, unknown]) =>
      typeof value === "string" ? [[key, value] as const] : [],
    )
    .toSorted(([left], [right]) => (left < right ? -1 : 1));
}
