import { type FSWatcher, watch } from "node:fs";
import { join } from "node:path";
import { getErrorCode } from "../../../../base/errors.ts";

export interface FolderWatchListener {
  /**
   * Reports a change at `path`, which is relative to the source. If the system does not name the changed file, the path
   * is that of the file's folder.
   */
  onChange(path: string): void;
}

/**
 * One file system watch for each folder of a source. A watch reports changes of the files in its folder. chokidar would
 * also need one watch for each file, and a system may allow only a few thousand watches. `isIncomplete` is true if the
 * system refused a watch.
 */
export class FolderWatches {
  readonly #root: string;
  readonly #listener: FolderWatchListener;
  readonly #watches = new Map<string, { readonly watcher: FSWatcher; readonly inode: number }>();
  #isIncomplete = false;

  constructor(root: string, listener: FolderWatchListener) {
    this.#root = root;
    this.#listener = listener;
  }

  get isIncomplete(): boolean {
    return this.#isIncomplete;
  }

  get size(): number {
    return this.#watches.size;
  }

  /** Watches a folder. Call this before the folder is listed, so that no change is missed in between. */
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
      const code = getErrorCode(error);
      // A folder that was removed needs no watch. Any other error means that the system refused the watch.
      if (code !== "ENOENT" && code !== "ENOTDIR" && code !== "EACCES") this.#isIncomplete = true;
    }
  }

  /** Closes the watches of a folder and of all folders below it. */
  unwatchFolder(folder: string): void {
    const below = folder === "" ? "" : `${folder}/`;
    for (const [path, { watcher }] of this.#watches)
      if (path === folder || path.startsWith(below)) {
        watcher.close();
        this.#watches.delete(path);
      }
  }

  /** Clears `isIncomplete`. Call this before a full scan, which tries to watch all folders again. */
  resetIncomplete(): void {
    this.#isIncomplete = false;
  }

  #drop(folder: string, watcher: FSWatcher): void {
    watcher.close();
    if (this.#watches.get(folder)?.watcher === watcher) this.#watches.delete(folder);
  }
}
