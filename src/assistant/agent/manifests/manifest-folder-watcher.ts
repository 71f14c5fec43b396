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
  /** Something may be different. `name` is that of a manifest, where one is known. */
  readonly onChange: (name: string | undefined) => void;
  /** Events may be missing from now on, as where the system has no more watches to give. */
  readonly onError: (error: unknown) => void;
}

/**
 * Tells that a folder of manifests may have changed, also one that is not there yet: then its nearest parent
 * that is there is watched. Hints only: whoever gets one looks for himself.
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

  /** Call after each look at the folder. Never rejects. */
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
    // Straight from the system, and so before chokidar has looked at the file.
    watcher.on("raw", (_event, name: unknown) => {
      if (typeof name !== "string") hint(undefined);
      else if (isManifestName(basename(name))) hint(basename(name));
    });
    watcher.on("all", (event, path) => {
      // The watch died with the folder, whatever is made in its place: the next look opens another.
      if (event === "unlinkDir" && resolve(path) === this.#directory && isCurrent()) {
        this.#identity = undefined;
      }
      hint(isManifestName(basename(path)) ? basename(path) : undefined);
    });
    // What changed while the watches were being made went unseen.
    watcher.on("ready", () => hint(undefined));
    watcher.on("error", (error) => {
      if (isCurrent()) this.#callbacks.onError(error);
    });
    this.#watcher = watcher;
  }

  /** Watches the nearest parent that is there for the entry that leads on to the folder. */
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
        // Its own name: the parent itself has gone.
        if (name === null || name === basename(entry) || name === basename(path)) {
          this.#callbacks.onChange(undefined);
        }
      });
      watcher.on("error", (error) => {
        this.#parent = undefined;
        if (!this.#isClosed) this.#callbacks.onError(error);
      });
      this.#parent = { path, identity, watcher };
      // It may have come between the question and the watch.
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

/** Numbers of deleted folders are given out again at once: the time of birth tells them apart. */
function toIdentity({ dev, ino, birthtimeNs }: BigIntStats): string {
  return `${dev}:${ino}:${birthtimeNs}`;
}
