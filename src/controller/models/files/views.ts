import { mkdir, readdir, readlink, rename, rm, symlink } from "node:fs/promises";
import { basename, dirname, join, relative } from "node:path";
import { fsyncDirectory } from "../../../base/atomic-file.ts";
import { BerthError } from "../../../base/errors.ts";

const NAME_BYTES_MAX = 255;
const PATH_BYTES_MAX = 1024;

/** The folders of the models: links to the contents under the models' own file names. */
export class Views {
  readonly #dir: string;
  readonly #blobsDir: string;

  constructor(dir: string, blobsDir: string) {
    this.#dir = dir;
    this.#blobsDir = blobsDir;
  }

  /**
   * Returns the path of a file in a model's folder. Throws `model_unusable` for a name that leads out of the folder or
   * that the file system cannot store.
   */
  getPath(key: string, name: string): string {
    return join(this.#getFolder(key), ...parseFileName(name));
  }

  /**
   * Returns the sha256 in the target of a model file's symbolic link, even if no content with this sha256 is stored.
   */
  async readDigest(key: string, name: string): Promise<string | undefined> {
    return readLinkedDigest(this.getPath(key, name));
  }

  async link(key: string, name: string, sha256: string): Promise<void> {
    const path = this.getPath(key, name);
    const folder = dirname(path);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const target = relative(folder, join(this.#blobsDir, sha256));
    if ((await readlink(path).catch(() => undefined)) === target) return;
    const made = `${path}.new`;
    await rm(made, { force: true });
    await symlink(target, made);
    await rename(made, path);
    await Promise.all([fsyncDirectory(folder), fsyncDirectory(this.#dir)]);
  }

  async remove(key: string): Promise<void> {
    await rm(this.#getFolder(key), { recursive: true, force: true });
  }

  async listKeys(): Promise<string[]> {
    return readdir(this.#dir).catch(() => []);
  }

  /** Returns the sha256 values in the targets of a model's symbolic links. */
  async listDigests(key: string): Promise<Set<string>> {
    const found = new Set<string>();
    const folder = this.#getFolder(key);
    const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
    for (const entry of entries) {
      if (!entry.isSymbolicLink()) continue;
      const digest = await readLinkedDigest(join(entry.parentPath, entry.name));
      if (digest !== undefined) found.add(digest);
    }
    return found;
  }

  #getFolder(key: string): string {
    // A model's key is derived from its resolved source, and users cannot choose it, so an invalid key is a bug.
    if (!/^[^/\0]{1,200}$/.test(key) || key === "." || key === "..")
      throw new Error("the key of a model is not a valid folder name");
    return join(this.#dir, key);
  }
}

async function readLinkedDigest(path: string): Promise<string | undefined> {
  const target = await readlink(path).catch(() => undefined);
  const name = basename(target ?? "");
  return /^[0-9a-f]{64}$/.test(name) ? name : undefined;
}

/**
 * Splits the name of a hub's file into the segments of its path. Throws if a malicious name leads out of the model's
 * folder, or if the file system cannot store the name.
 */
function parseFileName(name: string): string[] {
  const parts = name.split("/");
  const isRight =
    Buffer.byteLength(name) <= PATH_BYTES_MAX &&
    !name.includes("\0") &&
    parts.every(
      (part) =>
        part !== "" &&
        part !== "." &&
        part !== ".." &&
        // While `link` replaces a link, the name has the suffix `.new`, so the name of a file must be four bytes
        // shorter than the limit of a name.
        Buffer.byteLength(part) <= NAME_BYTES_MAX - 4,
    );
  if (isRight) return parts;
  throw new BerthError(
    "model_unusable",
    `a file of the model has a name that cannot be used: ${JSON.stringify(name.slice(0, 100))}`,
    { hint: "choose another file of the repository" },
  );
}
