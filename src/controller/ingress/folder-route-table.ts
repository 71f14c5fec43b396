import { randomBytes } from "node:crypto";
import { mkdir, open, readdir, rename, rm, symlink } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "../../base/clock.ts";
import { BerthError, getErrorCode } from "../../base/errors.ts";
import { KeyedMutex } from "../../base/mutex.ts";
import { TaskGroup } from "../../base/task-group.ts";
import { NAME_LENGTH_MAX, namePattern } from "../../resources/field-schemas.ts";
import { DirectMarkers } from "./direct-markers.ts";
import { type DirectRouteSet, getDirectFolder } from "./direct-routes.ts";
import type { AppRoute, AppRouteTable } from "./port.ts";
import { listEntries, readLinkTarget, removeFile, withDiskErrors } from "./route-table-disk.ts";
import {
  decodeTableEntry,
  encodeTableEntry,
  LONG_LEVELS,
  ORDER_MAX,
  type RouteTableEntry,
  SLOTS,
} from "./route-table-entry.ts";

/**
 * The time for which a superseded entry is kept. Caddy may have listed the folder before the change, and takes
 * microseconds, or much longer on a loaded machine, until it reads the file.
 */
const SUPERSEDED_KEPT_MS = 1_000;

/** Matches host names that may be looked up as file names: without `..`, patterns or upper case. */
export const hostPattern = "^(?:[a-z0-9-]+\\.)*[a-z0-9-]+$";
const validHost = new RegExp(hostPattern);
const HOST_LENGTH_MAX = 253;
const validApp = new RegExp(namePattern);
/**
 * The key of the lock for the hosts and the direct routes. It differs from the keys of the App locks, because no App
 * can have this name. This lock is taken before the lock of an App.
 */
const HOSTS_LOCK = "/hosts";

/**
 * The link to the folder of an App's only target. Its name sorts after the names of all entries, so that a search for
 * `*` finds an entry first.
 */
export const TARGET_LINK = "_";

interface StoredEntry extends RouteTableEntry {
  /**
   * The name of the entry in the App's folder: the name of its file or, if the entry has several levels, the
   * name of its outermost folder.
   */
  readonly name: string;
  /**
   * The number of names on the path from the App's folder to the entry's file: 2 for one target, 5 for more than
   * twelve, otherwise 1 (see RouteTableEntry).
   */
  readonly levels: number;
}

interface StoredEntries {
  /** The entry from which Caddy reads the targets of the App. */
  readonly current: StoredEntry | undefined;
  /** All entries of the App, the newest first. */
  readonly all: readonly StoredEntry[];
}

/**
 * The route table as a folder, which Caddy reads for each request:
 * - `apps/<app>/<entry>`: see route-table-entry.ts.
 * - `apps/<app>/_`: a link to the entry of a single target. Caddy follows this link first, the cheapest look-up. If
 *   there is no link, Caddy uses the first entry by name, and prefers plain files to entries in nested folders.
 * - `hosts/<host>`: a link to `../apps/<app>`.
 * - `direct/`: see direct-markers.ts.
 * - `new/`: entries that are being created or removed.
 * Each change is atomic: a file appears or disappears, or a folder or link is renamed. The table outlives
 * Berth and Caddy. A folder without an entry is a known host without targets.
 */
export class FolderRouteTable implements AppRouteTable, AsyncDisposable {
  readonly folder: string;
  readonly #clock: Clock;
  readonly #mutex = new KeyedMutex();
  readonly #markers: DirectMarkers;
  /**
   * The time when the entry at each path was replaced by a newer entry. Entries that an earlier Berth process replaced
   * are missing.
   */
  readonly #superseded = new Map<string, number>();
  /** The timers that remove superseded entries, by App; each value cancels one. */
  readonly #removals = new Map<string, () => void>();
  // If a superseded entry cannot be removed by its timer, the next write of its App removes it.
  readonly #tasks = new TaskGroup(() => {});

  constructor(options: { readonly folder: string; readonly clock: Clock }) {
    this.folder = options.folder;
    this.#clock = options.clock;
    this.#markers = new DirectMarkers(getDirectFolder(this.folder));
  }

  /** Creates the folders, and removes the files that an interrupted run left behind. */
  prepare(): Promise<void> {
    return withDiskErrors(async () => {
      await rm(join(this.folder, "new"), { recursive: true, force: true });
      for (const name of ["apps", "hosts", "new"])
        await mkdir(join(this.folder, name), { recursive: true, mode: 0o700 });
      // A crash may have left marker files of direct routes that do not match the route table, so all of them are
      // removed.
      await this.#markers.clear();
    });
  }

  /**
   * Cancels the timers that remove superseded entries. They must not run while the next process prepares its table in
   * the same folder.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const cancel of this.#removals.values()) cancel();
    this.#removals.clear();
    await this.#tasks[Symbol.asyncDispose]();
  }

  async read(app: string): Promise<AppRoute | null> {
    const folder = this.#appFolder(app);
    return withDiskErrors(async () => (await this.#entries(folder)).current?.route ?? null);
  }

  async write(
    app: string,
    route: { readonly version: string; readonly targets: readonly string[] },
  ): Promise<void> {
    const folder = this.#appFolder(app);
    return this.#mutex.runExclusive(app, () =>
      withDiskErrors(async () => {
        await this.#replace(app, folder, route);
        await this.#markers.synchronize(app, [...new Set(route.targets)]);
      }),
    );
  }

  async retainTargets(app: string, reached: ReadonlySet<string>): Promise<AppRoute | null> {
    const folder = this.#appFolder(app);
    return this.#mutex.runExclusive(app, () =>
      withDiskErrors(async () => {
        const current = (await this.#entries(folder)).current?.route;
        const targets = current?.targets.filter((target) => reached.has(target)) ?? [];
        if (current && targets.length < current.targets.length)
          await this.#replace(app, folder, { version: current.version, targets });
        // The marker files of direct routes are synchronized even if the targets have not changed, because an earlier
        // call may have failed after it had changed the route table.
        await this.#markers.synchronize(app, current ? targets : null);
        return current ? { ...current, targets } : null;
      }),
    );
  }

  async remove(app: string): Promise<void> {
    const folder = this.#appFolder(app);
    return this.#mutex.runExclusive(app, () =>
      withDiskErrors(async () => {
        for (const path of this.#superseded.keys())
          if (path.startsWith(`${folder}/`)) this.#superseded.delete(path);
        await this.#discard(join(this.folder, "apps"), app);
        await this.#markers.synchronize(app, null);
      }),
    );
  }

  /** Removes all routes and hosts. */
  async clear(): Promise<void> {
    await this.prepare();
    await this.setHosts(new Map(), "replace");
    await this.retainApps(new Set());
  }

  /** Sets which App serves each host. With `replace`, all other hosts are removed; with `add`, they are kept. */
  setHosts(hosts: ReadonlyMap<string, string>, how: "add" | "replace"): Promise<void> {
    return this.#mutex.runExclusive(HOSTS_LOCK, () =>
      withDiskErrors(async () => {
        const folder = join(this.folder, "hosts");
        // The direct routes of a host are changed first, because Caddy prefers them to every other route of the host.
        for (const app of this.#markers.setHosts(hosts)) await this.#synchronize(app);
        for (const app of new Set(hosts.values()))
          await mkdir(this.#appFolder(app), { recursive: true, mode: 0o700 });
        for (const [host, app] of hosts) {
          if (!validHost.test(host) || host.length > HOST_LENGTH_MAX)
            throw new BerthError("internal", `"${host}" is not a host name`);
          const path = join(folder, host);
          const target = join("..", "apps", app);
          if ((await readLinkTarget(path)) === target) continue;
          const made = this.#newScratchPath();
          await symlink(target, made);
          await rename(made, path);
        }
        if (how === "add") return;
        for (const name of await readdir(folder))
          if (!hosts.has(name)) await rm(join(folder, name), { recursive: true, force: true });
      }),
    );
  }

  /** Makes Caddy use the direct routes of a configuration that is loaded, or about to be loaded. */
  addDirectRoutes(set: DirectRouteSet): Promise<void> {
    return this.#mutex.runExclusive(HOSTS_LOCK, () =>
      withDiskErrors(async () => {
        await this.#markers.add(set);
        for (const { app } of set.routes) await this.#synchronize(app);
      }),
    );
  }

  /** Keeps the marker files of these sets of direct routes, and removes those of all other sets. */
  retainDirectRoutes(sets: readonly DirectRouteSet[]): Promise<void> {
    const generations = new Set(sets.map(({ generation }) => generation));
    return this.#mutex.runExclusive(HOSTS_LOCK, () =>
      withDiskErrors(() => this.#markers.retain(generations)),
    );
  }

  #synchronize(app: string): Promise<void> {
    return this.#mutex.runExclusive(app, async () => {
      const route = (await this.#entries(this.#appFolder(app))).current?.route;
      await this.#markers.synchronize(app, route?.targets ?? null);
    });
  }

  /**
   * Keeps the folders of these Apps. All others belong to Apps that were deleted while Berth was not running, and are
   * removed.
   */
  retainApps(apps: ReadonlySet<string>): Promise<void> {
    return withDiskErrors(async () => {
      for (const name of await readdir(join(this.folder, "apps")))
        if (!apps.has(name) && validApp.test(name)) await this.remove(name);
    });
  }

  /** Replaces the current entry of an App. The caller holds the App's lock. */
  async #replace(
    app: string,
    folder: string,
    route: { readonly version: string; readonly targets: readonly string[] },
  ): Promise<void> {
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const { current, all } = await this.#entries(folder);
    const same = current?.route.version === route.version;
    const targets = [...new Set(route.targets)];
    if (!(same && isSameList(current.route.targets, targets))) {
      const sinceMs = same ? current.route.sinceMs : this.#clock.now();
      const names = encodeTableEntry({
        order: (all[0]?.order ?? ORDER_MAX + 1) - 1,
        route: { version: route.version, targets, sinceMs },
      });
      await this.#publish(folder, names);
      const now = this.#clock.now();
      for (const { name } of all) {
        const path = join(folder, name);
        if (!this.#superseded.has(path)) this.#superseded.set(path, now);
      }
      await this.#makeCurrent(folder, { name: names[0] ?? "", targets: targets.length }, all);
    }
    await this.#removeSuperseded(folder);
    this.#removeSupersededLater(app, folder);
  }

  /**
   * Makes Caddy use a new entry. For a single target, replaces the link `_`. For other entries, removes the link and
   * every older entry that Caddy would find first; the last removal makes Caddy use the new entry.
   */
  async #makeCurrent(
    folder: string,
    entry: { readonly name: string; readonly targets: number },
    older: readonly StoredEntry[],
  ): Promise<void> {
    const link = join(folder, TARGET_LINK);
    if (entry.targets === 1) {
      const made = this.#newScratchPath();
      await symlink(entry.name, made);
      await rename(made, link);
      return;
    }
    const isFoundFirst = ({ levels }: StoredEntry) =>
      entry.targets > SLOTS ? levels === 1 : entry.targets === 0 && levels === LONG_LEVELS;
    // Entries are removed from the oldest to the newest, so that Caddy uses the newest one while any of them is left.
    for (const { name } of older.filter(isFoundFirst).toReversed())
      await this.#discard(folder, name);
    await removeFile(link);
  }

  async #entries(folder: string): Promise<StoredEntries> {
    const found: StoredEntry[] = [];
    for (const item of await listEntries(folder)) {
      if (item.isSymbolicLink()) continue;
      const names = item.isDirectory() ? await readEntryPath(folder, item.name) : [item.name];
      const entry = decodeTableEntry(names);
      if (entry && item.isDirectory() === names.length > 1)
        found.push({ ...entry, name: item.name, levels: names.length });
    }
    const all = found.toSorted((a, b) => a.order - b.order);
    const linked = await readLinkTarget(join(folder, TARGET_LINK));
    const current =
      all.find(({ name }) => name === linked) ??
      all.find(({ levels }) => levels === 1) ??
      all.find(({ levels }) => levels > 2);
    return { current, all };
  }

  async #publish(folder: string, names: readonly string[]): Promise<void> {
    const [first = "", ...rest] = names;
    if (rest.length === 0) {
      await (await open(join(folder, first), "wx", 0o600)).close();
      return;
    }
    const made = this.#newScratchPath();
    await mkdir(join(made, ...rest.slice(0, -1)), { recursive: true, mode: 0o700 });
    await (await open(join(made, ...rest), "wx", 0o600)).close();
    await rename(made, join(folder, first));
  }

  /** Removes an entry. The entry is renamed first, so that Caddy never reads an entry that is partly removed. */
  async #discard(folder: string, name: string): Promise<void> {
    const scratch = this.#newScratchPath();
    try {
      await rename(join(folder, name), scratch);
    } catch (error) {
      if (getErrorCode(error) !== "ENOENT") throw error;
    }
    this.#superseded.delete(join(folder, name));
    await rm(scratch, { recursive: true, force: true });
  }

  async #removeSuperseded(folder: string): Promise<void> {
    const limit = this.#clock.now() - SUPERSEDED_KEPT_MS;
    const { current, all } = await this.#entries(folder);
    for (const { name } of all) {
      if (name === current?.name) continue;
      const since = this.#superseded.get(join(folder, name));
      if (since === undefined || since <= limit) await this.#discard(folder, name);
    }
  }

  #removeSupersededLater(app: string, folder: string): void {
    this.#removals.get(app)?.();
    const cancel = this.#clock.setTimer(SUPERSEDED_KEPT_MS, () => {
      this.#removals.delete(app);
      this.#tasks.run("removal of superseded routes", () =>
        this.#mutex.runExclusive(app, () => this.#removeSuperseded(folder)),
      );
    });
    this.#removals.set(app, cancel);
  }

  #appFolder(app: string): string {
    if (!validApp.test(app) || app.length > NAME_LENGTH_MAX)
      throw new BerthError("internal", `"${app}" is not a valid app name`);
    return join(this.folder, "apps", app);
  }

  #newScratchPath(): string {
    return join(this.folder, "new", randomBytes(8).toString("hex"));
  }
}

/** Returns the names on an entry's path, from its outermost folder to its file. Each folder has one item. */
async function readEntryPath(folder: string, first: string): Promise<string[]> {
  const names = [first];
  for (let isFolder = true; isFolder && names.length < LONG_LEVELS; ) {
    const [next] = await listEntries(join(folder, ...names));
    if (!next) break;
    names.push(next.name);
    isFolder = next.isDirectory();
  }
  return names;
}

function isSameList(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((text, index) => text === b[index]);
}
