import { constants } from "node:fs";
import { chmod, link, mkdir, open, symlink, unlink } from "node:fs/promises";
import { join } from "node:path";
import { getErrorCode } from "../../base/errors.ts";
import type { AcceptedEntry, ArchiveTree } from "./archive-tree.ts";
import type { ArchiveEntry } from "./extract-entries.ts";

/**
 * The flags for a new file. They never follow or overwrite an existing file, not even a link that was created a moment
 * ago.
 */
const NEW_FILE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;

/**
 * The folder that an archive is unpacked into. The folder was empty before, so the tree that was built from the
 * archive's entries describes its whole content, and need not be compared with the disk.
 */
export class ExtractTarget {
  readonly #dir: string;
  readonly #tree: ArchiveTree;

  constructor(dir: string, tree: ArchiveTree) {
    this.#dir = dir;
    this.#tree = tree;
  }

  async write(entry: ArchiveEntry): Promise<void> {
    const accepted = this.#tree.add(entry);
    if (accepted === undefined) return;
    const { path, folders } = accepted;
    for (const folder of folders) await mkdir(join(this.#dir, folder), 0o755);
    // A folder gets all permissions of its owner, because Berth must be able to write into the folder and to remove it.
    if (entry.type === "dir")
      return await chmod(join(this.#dir, path), ((entry.mode ?? 0o755) & 0o777) | 0o700);
    await this.#removeExisting(path);
    if (entry.type === "file") await this.#writeFile(path, entry);
    else await this.#writeLink(accepted, entry);
  }

  async #writeFile(path: string, entry: ArchiveEntry): Promise<void> {
    const file = await open(join(this.#dir, path), NEW_FILE, 0o600);
    try {
      for await (const chunk of entry.body) await file.writeFile(chunk);
      // chmod is necessary, because the process's umask applies to the mode of a new file.
      await file.chmod(((entry.mode ?? 0o644) & 0o777) | 0o600);
    } finally {
      await file.close();
    }
  }

  async #writeLink({ path, original }: AcceptedEntry, entry: ArchiveEntry): Promise<void> {
    if (original === undefined) await symlink(entry.target, join(this.#dir, path));
    else await link(join(this.#dir, original), join(this.#dir, path));
  }

  /**
   * Removes what an earlier entry with this name created. If several entries have the same name, the last one is
   * kept, as with every tar program.
   */
  async #removeExisting(path: string): Promise<void> {
    await unlink(join(this.#dir, path)).catch((error: unknown) => {
      if (getErrorCode(error) !== "ENOENT") throw error;
    });
  }
}
