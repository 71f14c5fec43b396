import { posix } from "node:path";
import type { SourceTree } from "./list-source.ts";
import { readInside } from "./read-inside.ts";

/** The size limit of a file that is read. It is far above the size of files that determine how an app is built. */
const READ_BYTES_MAX = 1024 * 1024;

/**
 * Reads files of a source folder that `listSource` has listed. Files that the ignore rules exclude count as missing.
 */
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

  /**
   * Lists the names in a folder of the source; `""` is the source folder itself. Returns an empty list if the folder
   * does not exist.
   */
  list(folder: string): readonly string[] {
    return this.#folders.get(folder) ?? [];
  }

  /** Returns true if a file, a folder or a link of this path exists. */
  has(path: string): boolean {
    const folder = posix.dirname(path);
    return this.list(folder === "." ? "" : folder).includes(posix.basename(path));
  }

  /**
   * Reads a text file; undefined if the path is not a file or is outside the source. Throws `invalid_request` if the
   * file is larger than 1 MiB.
   */
  async read(path: string): Promise<string | undefined> {
    return this.has(path) ? readInside(this.#tree.dir, path, READ_BYTES_MAX) : undefined;
  }
}
