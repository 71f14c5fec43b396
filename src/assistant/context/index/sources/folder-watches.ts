import { type FSWatcher, watch } from "node:fs";
import { join } from "node:path";

export interface FolderWatchListener {
  /** Something happened at this path, from the source's top; a folder's own where nothing more is known. */
  onChange(path: string): void;
}

/**
 * One watch for each folder of a source, and none for files: a folder's watch tells of what happens to the
 * files in it. (chokidar takes one for each file too, of which a system may have no more than some
 * thousands.) `isShort`: the system gave no more of them, so that not everything is seen.
 */
export class FolderWatches {
  readonly #root: string;
  readonly #listener: FolderWatchListener;
  readonly #watches = new Map<string, { readonly watcher: FSWatcher; readonly inode: number }>();
  #isIncomplete = false;

  constructor(root: string, events: FolderWatchListener) {
    this.#root = root;
    this.#listener = events;
  }

  get isIncomplete(): boolean {
    return this.#isIncomplete;
  }

  get size(): number {
    return this.#watches.size;
  }

  /** To be called before the folder is listed, so that nothing is missed in between. */
  watchFolder(folder: string, inode: number): void {
    const known = this.#watches.get(folder);
    if (known?.inode === inode) return;
    known?.watcher.close();
    this.#watches.delete(folder);
    try {
      const watcher = watch(join(this.#root, folder), { persistent: false }, (_event, name) => {
        const below = folder === "" ? "" : `${folder}/`;
        this.#listener.onChange(name === null ? folder : `${below}${name}`);
      });
      watcher.on("error", () => {
        this.#drop(folder, watcher);
        this.#listener.onChange(folder);
      });
      this.#watches.set(folder, { watcher, inode });
    } catch (error) {
      const code = error instanceof Error && "code" in error ? error.code : undefined;
      // A folder that went away needs no watch; anything else means that one is missing.
      if (code !== "ENOENT" && code !== "ENOTDIR" && code !== "EACCES") this.#isIncomplete = true;
    }
  }

  /** The folder, and all below it, are not there any more, or left out. */
  unwatchFolder(folder: string): void {
    const below = folder === "" ? "" : `${folder}/`;
    for (const [path, { watcher }] of this.#watches)
      if (path === folder || path.startsWith(below)) {
        watcher.close();
        this.#watches.delete(path);
      }
  }

  /** Before all folders are followed anew: there may be enough of them now. */
  resetIncomplete(): void {
    this.#isIncomplete = false;
  }

  #drop(folder: string, watcher: FSWatcher): void {
    watcher.close();
    if (this.#watches.get(folder)?.watcher === watcher) this.#watches.delete(folder);
  }
}
