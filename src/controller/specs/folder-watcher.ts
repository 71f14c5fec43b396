import { type FSWatcher as LinkWatcher, watch as watchEntries } from "node:fs";
import { lstat, readlink } from "node:fs/promises";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import { type FSWatcher, watch } from "chokidar";
import { CONFIG_MAP_LINK, isEditorNoise, isHidden, isSpecFileName } from "./file-names.ts";
import type { FolderLocation } from "./scan-folder.ts";

/** A chain of links longer than the kernel's own limit leads nowhere. */
const LINKS_MAX = 40;

export interface WatcherEvents {
  /**
   * Something may be different. `path` is that of a spec file below the folder, where one is known:
   * its text is then looked at even if its stamp seems to be the same.
   */
  readonly onHint: (path: string | undefined) => void;
  /** chokidar's own news of a file, which usually comes some time after the hint of the same change. */
  readonly onDelayedHint: (path: string | undefined) => void;
  /** Events may be missing from now on, as where the system has no more watches to give. */
  readonly onError: (error: unknown) => void;
}

/**
 * Tells that the folder may have changed. Hints only: whoever gets one looks for himself. Watches
 * the real folder with chokidar, and beside it every link on the way there, because a swapped link
 * (a new release, a config map) changes nothing in the folder that it led to.
 */
export class FolderWatcher implements AsyncDisposable {
  readonly #folder: string;
  readonly #events: WatcherEvents;
  #location: FolderLocation | undefined;
  #watcher: FSWatcher | undefined;
  #links: LinkWatcher[] = [];
  #linkChain = "";
  #closed = false;

  constructor(folder: string, events: WatcherEvents) {
    this.#folder = resolve(folder);
    this.#events = events;
  }

  /** Call after each look at the folder with where it really is; undefined where it is not there. */
  async follow(location: FolderLocation | undefined): Promise<void> {
    if (this.#closed) return;
    await this.#followLinks();
    if (this.#closed || location?.identity === this.#location?.identity) return;
    this.#location = location;
    await this.#watcher?.close();
    this.#watcher = undefined;
    if (location !== undefined && !this.#closed) this.#open(location.realpath);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    this.#closeLinks();
    await this.#watcher?.close();
    this.#watcher = undefined;
  }

  #open(root: string): void {
    const watcher = watch(root, {
      ignoreInitial: true,
      followSymlinks: true,
      ignorePermissionErrors: true,
      atomic: false,
      ignored: (path, stats) => isIgnored(relative(root, path), stats?.isFile() ?? false),
    });
    const isCurrent = () => this.#watcher === watcher && !this.#closed;
    const hint = (path: string | undefined) => {
      if (isCurrent()) this.#events.onHint(path);
    };
    // Straight from the system: earlier than chokidar's own events, and also for swapped links.
    watcher.on("raw", (_event, name, details: unknown) => {
      if (typeof name !== "string") return hint(undefined);
      if (isEditorNoise(name) || (isHidden(name) && name !== CONFIG_MAP_LINK)) return undefined;
      const folder = watchedPath(details);
      const path = folder === undefined ? undefined : relative(root, join(folder, name));
      return hint(path !== undefined && isSpecFileName(name) ? toSlashPath(path) : undefined);
    });
    watcher.on("all", (event, path) => {
      // The watch died with the folder, whatever is made in its place: the next look opens another.
      if (event === "unlinkDir" && path === root && isCurrent()) this.#location = undefined;
      const below = relative(root, path);
      if (isCurrent()) {
        this.#events.onDelayedHint(
          isSpecFileName(basename(below)) ? toSlashPath(below) : undefined,
        );
      }
    });
    // What changed while the watches were being made went unseen.
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
        // The parent is not there either: the scan by the clock finds the folder when it comes.
      }
    }
  }

  #closeLinks(): void {
    for (const watcher of this.#links) watcher.close();
    this.#links = [];
  }
}

/** The folder's own entry, and that of every link which it leads through. */
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

function isIgnored(below: string, isFile: boolean): boolean {
  if (below === "") return false;
  const names = below.split(sep);
  if (names.some((name) => isHidden(name) && name !== CONFIG_MAP_LINK && name !== ".."))
    return true;
  return isFile && !isSpecFileName(names.at(-1) ?? "");
}

function watchedPath(details: unknown): string | undefined {
  if (details === null || typeof details !== "object" || !("watchedPath" in details))
    return undefined;
  return typeof details.watchedPath === "string" ? details.watchedPath : undefined;
}

function toSlashPath(path: string): string {
  return path.split(sep).join("/");
}
