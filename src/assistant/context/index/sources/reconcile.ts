import { join, posix } from "node:path";
import type { Documents, KnownDocument, NewDocument } from "../store/documents.ts";
import { kindOfFile } from "../text/file-kind.ts";
import { readText } from "../text/read-text.ts";
import type { FolderWatches } from "./folder-watches.ts";
import { readInRoot } from "./read-file.ts";
import { looksSecret } from "./secrets.ts";
import type { SourceRules } from "./source-rules.ts";
import { type SeenFile, walkTree } from "./tree-walk.ts";

/**
 * A file that was changed less than this before it was read may have been changed again under the same
 * time: it is read once more when the tree is next looked through, in milliseconds.
 */
const SAME_TIME_MS = 2_000;

export interface SourceFolder {
  /** Its row in the index. */
  readonly id: number;
  /** With all links on the way resolved. */
  readonly root: string;
}

/** One write to the index, to be made together with others. */
export type Change =
  | {
      readonly type: "put";
      readonly document: NewDocument;
      readonly movedFrom: KnownDocument | undefined;
    }
  | { readonly type: "touch"; readonly document: KnownDocument; readonly file: SeenFile }
  | { readonly type: "remove"; readonly document: KnownDocument };

export interface ReconcileTools {
  readonly documents: Documents;
  readonly rules: SourceRules;
  readonly watches: FolderWatches;
  readonly now: () => number;
  readonly apply: (change: Change) => void;
  /** Writes what was applied since the last time. */
  readonly flush: () => void;
}

/**
 * Brings the index to what is on the disk at `paths` and below them (`""`: everything), whatever it was
 * before: safe to repeat, and to be cut off anywhere. Files are compared by size and times, and by their
 * contents where these differ, or where `paths` names the very file. Yields every few milliseconds.
 */
export function* reconcile(
  { id: source, root }: SourceFolder,
  paths: readonly string[],
  tools: ReconcileTools,
): Generator<void> {
  const { documents, rules, watches, apply } = tools;
  const named = new Set(paths);
  const fresh: SeenFile[] = [];
  const changed: { file: SeenFile; known: KnownDocument }[] = [];
  const gone = new Map<string, KnownDocument>();
  for (const path of withoutNested(paths)) {
    const known = new Map(documents.below(source, path).map((it) => [it.path, it]));
    const isOut = path !== "" && rules.isLeftOutAnywhere(path, false);
    const seen = isOut
      ? { files: [], unreadable: [] }
      : yield* walkTree(root, path, rules, watches);
    for (const file of seen.files) {
      const before = known.get(file.path);
      known.delete(file.path);
      if (!before) fresh.push(file);
      else if (named.has(file.path) || isChanged(before, file))
        changed.push({ file, known: before });
    }
    for (const document of known.values()) {
      const isUnknown = seen.unreadable.some((it) => isBelow(document.path, it));
      if (!isUnknown) gone.set(document.path, document);
    }
    yield;
  }
  const missing = new Map<string, KnownDocument>();
  for (const document of gone.values())
    if (document.sha256) missing.set(document.sha256.toString("hex"), document);
  for (const { file, known } of changed) {
    const change = look(source, root, file, known, tools.now());
    if (change) apply(change);
    yield;
  }
  for (const file of fresh) {
    const change = look(source, root, file, undefined, tools.now());
    if (change?.type === "put") {
      const name = change.document.sha256?.toString("hex") ?? "";
      const movedFrom = missing.get(name);
      missing.delete(name);
      if (movedFrom) gone.delete(movedFrom.path);
      apply({ ...change, movedFrom });
    }
    yield;
  }
  for (const document of gone.values()) {
    apply({ type: "remove", document });
    yield;
  }
  tools.flush();
}

function isChanged(before: KnownDocument, file: SeenFile): boolean {
  return (
    before.size !== file.size ||
    before.mtimeMs !== file.mtimeMs ||
    before.ctimeMs !== file.ctimeMs ||
    before.indexedMs - before.mtimeMs < SAME_TIME_MS
  );
}

/** Undefined: nothing is to be written; what has gone meanwhile is told by the next event. */
function look(
  source: number,
  root: string,
  file: SeenFile,
  known: KnownDocument | undefined,
  now: number,
): Change | undefined {
  const { path } = file;
  const name = posix.basename(path);
  const kind = kindOfFile(name);
  const bare = { source, path, title: name, indexedMs: now, sha256: undefined, chunks: [] };
  if (kind === "skipped") {
    if (known) return { type: "touch", document: known, file };
    return { type: "put", document: { ...bare, ...stampOf(file) }, movedFrom: undefined };
  }
  const read = readInRoot(root, join(root, path));
  if (read.type === "gone" || (read.type === "denied" && known)) return undefined;
  const stamp = read.type === "denied" ? stampOf(file) : read.stamp;
  const empty: Change = { type: "put", document: { ...bare, ...stamp }, movedFrom: undefined };
  if (read.type !== "read") return empty;
  if (known?.sha256?.equals(read.sha256))
    return { type: "touch", document: known, file: { path, ...stamp } };
  const text = readText(read.bytes, name, kind);
  // Markup can part what the passages then have in one piece, and the other way round.
  if (!text || [text.written, ...text.chunks.map((it) => it.text)].some(looksSecret)) return empty;
  const { title, chunks } = text;
  return {
    type: "put",
    document: { ...bare, ...stamp, title, chunks, sha256: read.sha256 },
    movedFrom: undefined,
  };
}

function stampOf({ size, mtimeMs, ctimeMs }: SeenFile) {
  return { size, mtimeMs, ctimeMs };
}

function isBelow(path: string, folder: string): boolean {
  return folder === "" || path === folder || path.startsWith(`${folder}/`);
}

/** A folder's walk has all that is below it. */
function withoutNested(paths: readonly string[]): string[] {
  const all = new Set(paths);
  return [...all].filter((path) => {
    if (path === "") return true;
    if (all.has("")) return false;
    for (let folder = posix.dirname(path); folder !== "."; folder = posix.dirname(folder))
      if (all.has(folder)) return false;
    return true;
  });
}
