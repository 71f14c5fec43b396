import { mkdir, open, rm } from "node:fs/promises";
import { join } from "node:path";
import { type DirectRouteSet, SLOT_FOLDERS } from "./direct-routes.ts";

/**
 * Markers of the direct routes. The file `<generation>/<slot>/<host>` exists only while the targets in the route table
 * equal the targets of this slot, which are in Caddy's configuration of this generation. Without a marker, Caddy reads
 * the route table. A missing marker therefore only costs time, but a false one would send requests to the wrong
 * container: the route table is changed first, and a marker that is no longer true is removed before another one is
 * created. A configuration of another generation ignores these markers.
 *
 * The caller of `synchronize` holds the App's lock.
 */
export class DirectMarkers {
  readonly #folder: string;
  #sets: readonly DirectRouteSet[] = [];
  #hosts: ReadonlyMap<string, string> = new Map();
  /** The paths of marker files that exist, or whose creation may have succeeded. */
  readonly #present = new Set<string>();

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Removes the marker files of all direct routes, including those of earlier Berth processes. */
  async clear(): Promise<void> {
    this.#sets = [];
    this.#present.clear();
    await rm(this.#folder, { recursive: true, force: true });
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
  }

  /** Adds a set of direct routes. The caller has to call `synchronize` for the Apps of these routes afterwards. */
  async add(set: DirectRouteSet): Promise<void> {
    if (this.#sets.some(({ generation }) => generation === set.generation)) return;
    await rm(join(this.#folder, set.generation), { recursive: true, force: true });
    for (const slot of SLOT_FOLDERS)
      await mkdir(join(this.#folder, set.generation, slot), { recursive: true, mode: 0o700 });
    this.#sets = [...this.#sets, set];
  }

  /** Keeps the sets of direct routes with these generations. Removes all other sets with their marker files. */
  async retain(generations: ReadonlySet<string>): Promise<void> {
    const removed = this.#sets.filter(({ generation }) => !generations.has(generation));
    this.#sets = this.#sets.filter(({ generation }) => generations.has(generation));
    for (const { generation } of removed)
      await rm(join(this.#folder, generation), { recursive: true, force: true });
    for (const path of this.#present)
      if (!generations.has(path.split("/")[0] ?? "")) this.#present.delete(path);
  }

  /** Sets the App that serves each host. Returns the Apps for which the caller has to call `synchronize`. */
  setHosts(hosts: ReadonlyMap<string, string>): ReadonlySet<string> {
    this.#hosts = hosts;
    return new Set(this.#sets.flatMap(({ routes }) => routes.map(({ app }) => app)));
  }

  /**
   * Updates the marker files of an App's direct routes: keeps or creates those of slots whose targets equal `targets`,
   * and removes all others. `targets` is null if the App has no route.
   */
  async synchronize(app: string, targets: readonly string[] | null): Promise<void> {
    const wanted = new Set<string>();
    const unwanted = new Set<string>();
    for (const { generation, routes } of this.#sets) {
      for (const route of routes.filter((item) => item.app === app)) {
        const current =
          targets === null ? -1 : route.slots.findIndex((slot) => isSame(slot, targets));
        for (const host of route.hosts) {
          const isServed = this.#hosts.get(host) === app;
          for (const [slot, folder] of SLOT_FOLDERS.entries())
            (isServed && slot === current ? wanted : unwanted).add(
              `${generation}/${folder}/${host}`,
            );
        }
      }
    }
    for (const path of unwanted) if (this.#present.has(path)) await this.#remove(path);
    for (const path of wanted) if (!this.#present.has(path)) await this.#create(path);
  }

  async #remove(path: string): Promise<void> {
    await rm(join(this.#folder, path), { force: true });
    this.#present.delete(path);
  }

  async #create(path: string): Promise<void> {
    // The path is recorded before the file is created, because a creation may succeed and still report an error.
    this.#present.add(path);
    try {
      await (await open(join(this.#folder, path), "w", 0o600)).close();
    } catch {
      // If the marker file cannot be created, for example because the disk is full, the direct route does not apply,
      // and Caddy reads the route table. The next synchronization tries to create the file again.
      await this.#remove(path);
    }
  }
}

function isSame(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((target) => b.includes(target));
}
