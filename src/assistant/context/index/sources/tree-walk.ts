import { type Dirent, lstatSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { getErrorCode } from "../../../../base/errors.ts";
import type { FileStat } from "../store/document-store.ts";
import type { FolderWatches } from "./folder-watches.ts";
import type { SourceRules } from "./source-rules.ts";

export interface WalkedFile extends FileStat {
  readonly path: string;
}

export interface WalkedTree {
  readonly files: readonly WalkedFile[];
  /** Paths of folders that could not be read; it is unknown which files they contain. */
  readonly unreadable: readonly string[];
}

/** The number of folder entries that are read between two turns of the event loop. */
const ENTRIES_PER_STEP = 200;
/** Folders nested deeper than this are ignored. */
const DEPTH_MAX = 64;

/**
 * Lists all files at or below `from` that are not excluded, and watches each folder. `from` is relative to the source
 * and may be a file or missing. Links are not followed. Lets other work of the thread run every few milliseconds.
 */
export function* walkTree(
  root: string,
  from: string,
  rules: SourceRules,
  watches: FolderWatches,
): Generator<void, WalkedTree> {
  const files: WalkedFile[] = [];
  const unreadable: string[] = [];
  const folders: string[] = [];
  const visit = (path: string) => {
    const state = lstatSync(join(root, path), { throwIfNoEntry: false });
    const isFolder = state?.isDirectory() === true;
    if (!state || (!isFolder && !state.isFile())) return;
    if (path !== "" && rules.isExcluded(path, isFolder)) return;
    if (isFolder) {
      if (path.split("/").length > DEPTH_MAX) return;
      watches.watchFolder(path, state.ino);
      folders.push(path);
    } else {
      const { size, mtimeMs, ctimeMs } = state;
      files.push({ path, size, mtimeMs, ctimeMs });
    }
  };
  visit(from);
  let entries = 0;
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    let names: readonly string[];
    try {
      names = readdirSync(join(root, folder), { withFileTypes: true, encoding: "buffer" }).flatMap(
        (entry) => decodeName(entry) ?? [],
      );
    } catch (error) {
      const code = getErrorCode(error);
      if (code !== "ENOENT" && code !== "ENOTDIR") unreadable.push(folder);
      continue;
    }
    for (const name of names) {
      try {
        visit(folder === "" ? name : `${folder}/${name}`);
      } catch {
        unreadable.push(folder === "" ? name : `${folder}/${name}`);
      }
      entries += 1;
      if (entries % ENTRIES_PER_STEP === 0) yield;
    }
  }
  return { files, unreadable };
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Decodes a file name. Returns undefined for a name that is not UTF-8, because it cannot be shown in a search hit. */
function decodeName(entry: Dirent<Buffer>): string | undefined {
  try {
    return decoder.decode(entry.name);
  } catch {
    return undefined;
  }
}
