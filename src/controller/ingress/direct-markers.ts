import { mkdir, open, rm } from "node:fs/promises";
import { join } from "node:path";
import { type DirectRouteSet, SLOT_FOLDERS } from "./direct-routes.ts";

/**
 * Markers of the direct routes: the file `<generation>/<slot>/<host>` exists only while the table has exactly the targets
 * of this slot, which Caddy's configuration of this generation contains. The table is changed first, and a marker that is
 * no longer true is removed before another one is created: without one, Caddy reads the table. A marker that is missing
 * costs time; one that is false would send requests to the wrong container. A configuration of another generation sees
 * none of them.
 *
 * The caller holds the App's lock in `synchronize`.
 */
export class DirectMarkers {
  readonly #folder: string;
  #sets: readonly DirectRouteSet[] = [];
  #hosts: ReadonlyMap<string, string> = new Map();
  /** The paths of markers that may exist. */
  readonly #present = new Set<string>();

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Removes all markers, those of earlier runs too. */
  async clear(): Promise<void> {
    this.#sets = [];
    this.#present.clear();
    await rm(this.#folder, { recursive: true, force: true });
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
  }

  /** Adds a set of direct routes. Its Apps have to be synchronized afterwards. */
  async add(set: DirectRouteSet): Promise<void> {
    if (this.#sets.some(({ generation }) => generation === set.generation)) return;
    await rm(join(this.#folder, set.generation), { recursive: true, force: true });
    for (const slot of SLOT_FOLDERS)
      await mkdir(join(this.#folder, set.generation, slot), { recursive: true, mode: 0o700 });
    this.#sets = [...this.#sets, set];
  }

  /** Removes every other set with its markers. */
  async retain(generations: ReadonlySet<string>): Promise<void> {
    const removed = this.#sets.filter(({ generation }) => !generations.has(generation));
    this.#sets = this.#sets.filter(({ generation }) => generations.has(generation));
    for (const { generation } of removed)
      await rm(join(this.#folder, generation), { recursive: true, force: true });
    for (const path of this.#present)
      if (!generations.has(path.split("/")[0] ?? "")) this.#present.delete(path);
  }

  /** Sets the Apps of all hosts. Returns the Apps that are to be synchronized. */
  setHosts(hosts: ReadonlyMap<string, string>): ReadonlySet<string> {
    this.#hosts = hosts;
    return new Set(this.#sets.flatMap(({ routes }) => routes.map(({ app }) => app)));
  }

  /** Creates and removes the markers of an App for these targets; null if it has no route. */
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
    // The path is noted before the creation, which may succeed and yet report an error.
    this.#present.add(path);
    try {
      await (await open(join(this.#folder, path), "w", 0o600)).close();
    } catch {
      // After an error, such as a full disk, Caddy reads the table. The next synchronization finds the path present, or
      // tries again.
      await this.#remove(path);
    }
  }
}

function isSame(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((target) => b.includes(target));
}
