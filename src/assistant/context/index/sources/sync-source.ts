import { join, posix } from "node:path";
import type { DocumentStore, NewDocument, StoredDocument } from "../store/document-store.ts";
import { classifyFile } from "../text/file-kind.ts";
import { readText } from "../text/read-text.ts";
import type { FolderWatches } from "./folder-watches.ts";
import { readInRoot } from "./read-source-file.ts";
import { containsSecret } from "./secret-detection.ts";
import type { SourceRules } from "./source-rules.ts";
import { type WalkedFile, walkTree } from "./tree-walk.ts";

/**
 * If a file was modified less than this number of milliseconds before it was read, it may be modified again with the
 * same timestamp. So the next scan reads it again.
 */
const MTIME_TRUST_MS = 2_000;

export interface SourceFolder {
  /** The id of the source's row in the index. */
  readonly id: number;
  /** The path of the indexed folder, without symbolic links. */
  readonly root: string;
}

/** A change to be written to the index. Several changes are committed together. */
export type IndexChange =
  | {
      readonly type: "put";
      readonly document: NewDocument;
      readonly movedFrom: StoredDocument | undefined;
    }
  | { readonly type: "touch"; readonly document: StoredDocument; readonly file: WalkedFile }
  | { readonly type: "remove"; readonly document: StoredDocument };

export interface SyncSourceDependencies {
  readonly documents: DocumentStore;
  readonly rules: SourceRules;
  readonly watches: FolderWatches;
  readonly now: () => number;
  readonly apply: (change: IndexChange) => void;
  /** Commits the applied changes. */
  readonly flush: () => void;
}

/**
 * Makes the index match the files at `paths` and below; the path `""` means all files. The function can be interrupted
 * at any point and repeated. Files are compared by size and times, and by content if these differ or if `paths`
 * contains the file. Lets other work of the thread run every few milliseconds.
 */
export function* syncSource(
  { id: source, root }: SourceFolder,
  paths: readonly string[],
  dependencies: SyncSourceDependencies,
): Generator<void> {
  const { documents, rules, watches, apply } = dependencies;
  const named = new Set(paths);
  const fresh: WalkedFile[] = [];
  const changed: { file: WalkedFile; known: StoredDocument }[] = [];
  const gone = new Map<string, StoredDocument>();
  for (const path of withoutNested(paths)) {
    const known = new Map(documents.listBelow(source, path).map((it) => [it.path, it]));
    const isOut = path !== "" && rules.isPathExcluded(path, false);
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
      const isUnknown = seen.unreadable.some((it) => isAtOrBelow(document.path, it));
      if (!isUnknown) gone.set(document.path, document);
    }
    yield;
  }
  const missing = new Map<string, StoredDocument>();
  for (const document of gone.values())
    if (document.sha256) missing.set(document.sha256.toString("hex"), document);
  for (const { file, known } of changed) {
    const change = inspectFile(source, root, file, known, dependencies.now());
    if (change) apply(change);
    yield;
  }
  for (const file of fresh) {
    const change = inspectFile(source, root, file, undefined, dependencies.now());
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
  dependencies.flush();
}

function isChanged(before: StoredDocument, file: WalkedFile): boolean {
  return (
    before.size !== file.size ||
    before.mtimeMs !== file.mtimeMs ||
    before.ctimeMs !== file.ctimeMs ||
    before.indexedMs - before.mtimeMs < MTIME_TRUST_MS
  );
}

/**
 * Reads a file and returns the change to write; undefined if there is nothing to write. If the file is removed while it
 * is read, another event will report that.
 */
function inspectFile(
  source: number,
  root: string,
  file: WalkedFile,
  known: StoredDocument | undefined,
  now: number,
): IndexChange | undefined {
  const { path } = file;
  const name = posix.basename(path);
  const kind = classifyFile(name);
  const bare = { source, path, title: name, indexedMs: now, sha256: undefined, chunks: [] };
  if (kind === "skipped") {
    if (known) return { type: "touch", document: known, file };
    return { type: "put", document: { ...bare, ...toFileStat(file) }, movedFrom: undefined };
  }
  const read = readInRoot(root, join(root, path));
  if (read.type === "gone" || (read.type === "denied" && known)) return undefined;
  const stamp = read.type === "denied" ? toFileStat(file) : read.stamp;
  const empty: IndexChange = { type: "put", document: { ...bare, ...stamp }, movedFrom: undefined };
  if (read.type !== "read") return empty;
  if (known?.sha256?.equals(read.sha256))
    return { type: "touch", document: known, file: { path, ...stamp } };
  const text = readText(read.bytes, name, kind);
  // Both the source and the passages are checked for secrets: markup in the source can split a secret that is whole in
  // a passage, and the border between two passages can split a secret that is whole in the source.
  if (!text || [text.source, ...text.chunks.map((it) => it.text)].some(containsSecret))
    return empty;
  const { title, chunks } = text;
  return {
    type: "put",
    document: { ...bare, ...stamp, title, chunks, sha256: read.sha256 },
    movedFrom: undefined,
  };
}

function toFileStat({ size, mtimeMs, ctimeMs }: WalkedFile) {
  return { size, mtimeMs, ctimeMs };
}

function isAtOrBelow(path: string, folder: string): boolean {
  return folder === "" || path === folder || path.startsWith(`${folder}/`);
}

/** Removes paths below other paths of the list, because a walk through a folder includes all paths below it. */
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
