import { posix } from "node:path";
import type { SourceTree } from "./list-source.ts";
import { readInside } from "./read-inside.ts";

/** Files that say how an app is built are read whole, and are far smaller. */
const READ_BYTES_MAX = 1024 * 1024;

/** Looks into a listed folder: what is left out of it is not there. */
export class TreeReader {
  readonly #tree: SourceTree;
  readonly #folders = new Map<string, string[]>();

  constructor(tree: SourceTree) {
    this.#tree = tree;
    this.#folders.set("", []);
    for (const { path, type } of tree.entries) {
      const folder = posix.dirname(path);
      this.#folders.get(folder === "." ? "" : folder)?.push(posix.basename(path));
      if (type === "dir") this.#folders.set(path, []);
    }
  }

  /** Names in a folder of the source, `""` for the source itself; none where there is no such folder. */
  list(folder: string): readonly string[] {
    return this.#folders.get(folder) ?? [];
  }

  /** A file, a folder or a link is there. */
  has(path: string): boolean {
    const folder = posix.dirname(path);
    return this.list(folder === "." ? "" : folder).includes(posix.basename(path));
  }

  /** Undefined for what is no file, or leads out of the source. Throws `invalid_request` over 1 MiB. */
  async read(path: string): Promise<string | undefined> {
    return this.has(path) ? readInside(this.#tree.dir, path, READ_BYTES_MAX) : undefined;
  }
}
