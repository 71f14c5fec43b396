import {
  type BigIntStats,
  type FSWatcher as EntryWatcher,
  statSync,
  watch as watchEntries,
} from "node:fs";
import { basename, dirname, resolve } from "node:path";
import { type FSWatcher, watch } from "chokidar";
import { isManifestName } from "./manifest-file.ts";

export interface ManifestFolderWatcherCallbacks {
  /** Reports a possible change. `name` is the file name of a manifest, if it is known. */
  readonly onChange: (name: string | undefined) => void;
  /** Reports that changes may be missed from now on, for example because the system has no more file watches. */
  readonly onError: (error: unknown) => void;
}

/**
 * Watches a folder of manifests for changes. If the folder does not exist yet, its nearest existing parent is
 * watched. Events are only hints; the receiver must scan the folder to find the changes.
 */
export class ManifestFolderWatcher implements AsyncDisposable {
  readonly #directory: string;
  readonly #callbacks: ManifestFolderWatcherCallbacks;
  #identity: string | undefined;
  #watcher: FSWatcher | undefined;
  #parent:
    | {
        readonly path: string;
        readonly identity: string | undefined;
        readonly watcher: EntryWatcher;
      }
    | undefined;
  #isClosed = false;

  constructor(directory: string, events: ManifestFolderWatcherCallbacks) {
    this.#directory = resolve(directory);
    this.#callbacks = events;
  }

  /**
   * Watches the nearest existing parent of the folder, and the folder itself if it was created or replaced since the
   * last call. Callers call this method after each scan of the folder. Never rejects.
   */
  async updateWatches(): Promise<void> {
    if (this.#isClosed) return;
    this.#watchParent();
    const identity = readIdentity(this.#directory);
    if (identity === this.#identity) return;
    this.#identity = identity;
    await this.#watcher?.close();
    this.#watcher = undefined;
    if (identity !== undefined && !this.#isClosed) this.#startWatching();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    this.#parent?.watcher.close();
    this.#parent = undefined;
    await this.#watcher?.close();
    this.#watcher = undefined;
  }

  #startWatching(): void {
    const watcher = watch(this.#directory, {
      depth: 0,
      ignoreInitial: true,
      followSymlinks: true,
      ignorePermissionErrors: true,
      atomic: false,
      ignored: (path, stats) => stats?.isFile() === true && !isManifestName(basename(path)),
    });
    const isCurrent = () => this.#watcher === watcher && !this.#isClosed;
    const hint = (name: string | undefined) => {
      if (isCurrent()) this.#callbacks.onChange(name);
    };
    // Raw events report a change immediately, before chokidar has inspected the file.
    watcher.on("raw", (_event, name: unknown) => {
      if (typeof name !== "string") hint(undefined);
      else if (isManifestName(basename(name))) hint(basename(name));
    });
    watcher.on("all", (event, path) => {
      // The watch ends when the folder is deleted, even if a new folder has replaced it; the next scan opens another
      // watch.
      if (event === "unlinkDir" && resolve(path) === this.#directory && isCurrent()) {
        this.#identity = undefined;
      }
      hint(isManifestName(basename(path)) ? basename(path) : undefined);
    });
    // The folder may have changed while the watches were being set up, so a change is reported when they are ready.
    watcher.on("ready", () => hint(undefined));
    watcher.on("error", (error) => {
      if (isCurrent()) this.#callbacks.onError(error);
    });
    this.#watcher = watcher;
  }

  /** Watches the nearest existing parent for the creation of the next folder on the path. */
  #watchParent(): void {
    let entry = this.#directory;
    while (readIdentity(dirname(entry)) === undefined && dirname(entry) !== entry) {
      entry = dirname(entry);
    }
    const path = dirname(entry);
    const identity = readIdentity(path);
    if (this.#parent?.path === path && this.#parent.identity === identity) return;
    this.#parent?.watcher.close();
    this.#parent = undefined;
    try {
      const watcher = watchEntries(path, { persistent: false }, (_event, name) => {
        // The system reports the deletion of the watched folder itself as an event with the name of that folder.
        if (name === null || name === basename(entry) || name === basename(path)) {
          this.#callbacks.onChange(undefined);
        }
      });
      watcher.on("error", (error) => {
        this.#parent = undefined;
        if (!this.#isClosed) this.#callbacks.onError(error);
      });
      this.#parent = { path, identity, watcher };
      // If the next folder on the path appeared after the check and before the watch, no event reports it, so it is
      // reported now.
      if (readIdentity(entry) !== undefined) this.#callbacks.onChange(undefined);
    } catch (error) {
      this.#callbacks.onError(error);
    }
  }
}

function readIdentity(path: string): string | undefined {
  try {
    return toIdentity(statSync(path, { bigint: true }));
  } catch {
    return undefined;
  }
}

/**
 * Identifies a folder by its inode number and birth time, because inode numbers of deleted folders are reused at
 * once.
 */
function toIdentity({ dev, ino, birthtimeNs }: BigIntStats): string {
  return `${dev}:${ino}:${birthtimeNs}`;
}
