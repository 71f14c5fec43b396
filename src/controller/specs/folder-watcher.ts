import { type FSWatcher as LinkWatcher, watch as watchEntries } from "node:fs";
import { lstat, readlink } from "node:fs/promises";
import { basename, dirname, join, posix, relative, resolve, sep } from "node:path";
import { type FSWatcher, watch } from "chokidar";
import { CONFIG_MAP_LINK, isEditorNoise, isHidden, isSpecFileName } from "./file-names.ts";
import type { FolderLocation } from "./scan-folder.ts";

/** The maximum length of a chain of links. The kernel cannot resolve a longer chain. */
const LINKS_MAX = 40;

export interface WatcherEvents {
  /**
   * Called when the folder may have changed. `path` is the path of the spec file below the folder, if it is known. The
   * next scan reads that file even if its stamp (inode, size and times) is unchanged.
   */
  readonly onHint: (path: string | undefined) => void;
  /**
   * Called for chokidar's event of a change. `onHint` was usually called some time earlier, for the operating system's
   * event of the same change.
   */
  readonly onDelayedHint: (path: string | undefined) => void;
  /** Called when events may be missed from now on, for example because the system allows no more watches. */
  readonly onError: (error: unknown) => void;
}

/**
 * Reports that the folder may have changed. The reports are only hints, so the receiver has to scan. Watches the real
 * folder with chokidar, and every link on the path to it, because a replaced link (a new release, a config map)
 * changes nothing in the old folder. Watches only folders that the scan has read, because a link may lead to a whole
 * disk.
 */
export class FolderWatcher implements AsyncDisposable {
  readonly #folder: string;
  readonly #events: WatcherEvents;
  /** The paths of the watched folders, joined to one text; undefined while no folder is watched. */
  #watched: string | undefined;
  #watcher: FSWatcher | undefined;
  #links: LinkWatcher[] = [];
  #linkChain = "";
  #closed = false;

  constructor(folder: string, events: WatcherEvents) {
    this.#folder = resolve(folder);
    this.#events = events;
  }

  /** Called after each scan with the folder that was read, or with undefined if the folder does not exist. */
  async follow(location: FolderLocation | undefined): Promise<void> {
    if (this.#closed) return;
    await this.#followLinks();
    const folders = [...(location?.folders.keys() ?? [])];
    const watched = location && [location.identity, ...folders.toSorted()].join("\n");
    if (this.#closed || watched === this.#watched) return;
    this.#watched = watched;
    await this.#watcher?.close();
    this.#watcher = undefined;
    if (location !== undefined && !this.#closed) this.#open(location.realpath, new Set(folders));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    this.#closeLinks();
    await this.#watcher?.close();
    this.#watcher = undefined;
  }

  #open(root: string, folders: ReadonlySet<string>): void {
    const watcher = watch(root, {
      ignoreInitial: true,
      followSymlinks: true,
      ignorePermissionErrors: true,
      atomic: false,
      ignored: (path) => isIgnored(toSlashPath(relative(root, path)), folders),
    });
    const isCurrent = () => this.#watcher === watcher && !this.#closed;
    const hint = (path: string | undefined) => {
      if (isCurrent()) this.#events.onHint(path);
    };
    // The system's own events come earlier than those of chokidar, and report replaced links too.
    watcher.on("raw", (_event, name, details: unknown) => {
      if (typeof name !== "string") return hint(undefined);
      if (isEditorNoise(name) || (isHidden(name) && name !== CONFIG_MAP_LINK)) return undefined;
      const folder = watchedPath(details);
      const path = folder === undefined ? undefined : relative(root, join(folder, name));
      return hint(path !== undefined && isSpecFileName(name) ? toSlashPath(path) : undefined);
    });
    watcher.on("all", (event, path) => {
      // The watch ends when its folder is removed, even if a new folder has the same name. The next scan then opens
      // another watch.
      if (event === "unlinkDir" && path === root && isCurrent()) this.#watched = undefined;
      const below = relative(root, path);
      if (isCurrent()) {
        this.#events.onDelayedHint(
          isSpecFileName(basename(below)) ? toSlashPath(below) : undefined,
        );
      }
    });
    // A scan is requested, because changes were missed while the watches were being created.
    watcher.on("ready", () => hint(undefined));
    watcher.on("error", (error) => {
      if (isCurrent()) this.#events.onError(error);
    });
    this.#watcher = watcher;
  }

  async #followLinks(): Promise<void> {
    const entries = await listLinkChain(this.#folder);
    const chain = entries.join("\n");
    if (this.#closed || (chain === this.#linkChain && this.#links.length === entries.length))
      return;
    this.#closeLinks();
    this.#linkChain = chain;
    for (const entry of entries) {
      try {
        const watcher = watchEntries(dirname(entry), { persistent: false }, (_event, name) => {
          if (name === basename(entry)) this.#events.onHint(undefined);
        });
        watcher.on("error", () => this.#events.onHint(undefined));
        this.#links.push(watcher);
      } catch {
        // The parent of the watched folder does not exist either. A scan by the timer finds the folder later.
      }
    }
  }

  #closeLinks(): void {
    for (const watcher of this.#links) watcher.close();
    this.#links = [];
  }
}

/** Lists the path of the folder, and of every link that it resolves through. */
async function listLinkChain(folder: string): Promise<string[]> {
  const entries = [folder];
  let current = folder;
  while (entries.length < LINKS_MAX) {
    try {
      if (!(await lstat(current)).isSymbolicLink()) break;
      current = resolve(dirname(current), await readlink(current));
      entries.push(current);
    } catch {
      break;
    }
  }
  return entries;
}

/** Returns false only for folders that were read, and for their spec files and `..data` links of config maps. */
function isIgnored(below: string, folders: ReadonlySet<string>): boolean {
  if (folders.has(below)) return false;
  const parent = posix.dirname(below);
  const name = posix.basename(below);
  return (
    !folders.has(parent === "." ? "" : parent) ||
    !(isSpecFileName(name) || name === CONFIG_MAP_LINK)
  );
}

function watchedPath(details: unknown): string | undefined {
  if (details === null || typeof details !== "object" || !("watchedPath" in details))
    return undefined;
  return typeof details.watchedPath === "string" ? details.watchedPath : undefined;
}

function toSlashPath(path: string): string {
  return path.split(sep).join("/");
}
