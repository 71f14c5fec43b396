import { type FSWatcher, watch } from "node:fs";
import { join } from "node:path";

export interface FolderWatchListener {
  /** Reports a change at this path, relative to the source, or at a folder if the system does not name the file. */
  onChange(path: string): void;
}

/**
 * One file system watch for each folder of a source. It reports changes of the files in the folder. chokidar would need one
 * for each file too, and a system may allow only some thousands. `isIncomplete` is true if the system refused a watch.
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

  /** Must be called before the folder is listed, so that no change is missed in between. */
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
      // A removed folder needs no watch. Any other error means that a watch is missing.
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

  /** Must be called before a full scan, which tries to watch all folders again. */
  resetIncomplete(): void {
    this.#isIncomplete = false;
  }

  #drop(folder: string, watcher: FSWatcher): void {
    watcher.close();
    if (this.#watches.get(folder)?.watcher === watcher) this.#watches.delete(folder);
  }
}
