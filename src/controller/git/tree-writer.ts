import { constants } from "node:fs";
import { type FileHandle, mkdir, open, readdir, rm, symlink } from "node:fs/promises";
import { join } from "node:path";
import { getErrorCode, invalidTree, repositoryTooLarge, translateDiskError } from "./git-errors.ts";
import type { GitCheckout, SourceLimits } from "./port.ts";
import type { TreeEntry } from "./tree-entries.ts";

/**
 * The files of a fetched commit. `entries` yields a folder before its contents. The caller reads the content of an
 * entry before it requests the next entry.
 */
export interface CommitFiles {
  entries(): AsyncIterable<TreeEntry>;
  content(entry: TreeEntry): AsyncIterable<Uint8Array>;
}

/** The maximum length of the text of a link. The text is a path, whose length the system limits. */
const LINK_BYTES_MAX = 4095;

/**
 * Writes the files of a commit into the empty folder `dir`. It never follows or replaces an existing file: it enters
 * only folders that it has created, creates files only under new names, and creates links last. After a failure it
 * empties `dir` again.
 */
export async function writeTree(
  files: CommitFiles,
  dir: string,
  limits: SourceLimits,
  signal: AbortSignal,
): Promise<GitCheckout> {
  try {
    return await new TreeWriter(dir, limits, signal).write(files);
  } catch (error) {
    for (const name of await readdir(dir))
      await rm(join(dir, name), { recursive: true, force: true });
    throw translateDiskError(error);
  }
}

class TreeWriter {
  readonly #dir: string;
  readonly #limits: SourceLimits;
  readonly #signal: AbortSignal;
  readonly #folders = new Set([""]);
  readonly #links: { path: string; target: Buffer }[] = [];
  readonly #submodules: string[] = [];
  #entries = 0;
  #files = 0;
  #bytes = 0;

  constructor(dir: string, limits: SourceLimits, signal: AbortSignal) {
    this.#dir = dir;
    this.#limits = limits;
    this.#signal = signal;
  }

  async write(files: CommitFiles): Promise<GitCheckout> {
    for await (const entry of files.entries()) {
      this.#signal.throwIfAborted();
      // Folders also count against the limit of files, because a few objects can describe millions of empty folders.
      if (++this.#entries > this.#limits.filesMax)
        throw repositoryTooLarge("files", this.#limits.filesMax);
      await this.#add(entry, files);
    }
    for (const { path, target } of this.#links)
      await createOnce(path, () => symlink(target, this.#resolvePath(path)));
    return { submodules: this.#submodules, files: this.#files, bytes: this.#bytes };
  }

  async #add(entry: TreeEntry, files: CommitFiles): Promise<void> {
    const { path } = entry;
    if (entry.type === "submodule") {
      // git, too, creates an empty folder for a submodule, and a Dockerfile may copy the folder.
      this.#submodules.push(path);
      await this.#makeFolder(path);
    } else if (entry.type === "folder") await this.#makeFolder(path);
    else if (entry.type === "link") {
      const parts: Uint8Array[] = [];
      for await (const part of this.#countBytes(files.content(entry), LINK_BYTES_MAX, path))
        parts.push(part);
      const target = Buffer.concat(parts);
      if (target.length === 0 || target.includes(0))
        throw invalidTree(`${JSON.stringify(path)} is a link without a target`);
      this.#links.push({ path, target });
      this.#files++;
    } else {
      await this.#writeFile(entry, files.content(entry));
      this.#files++;
    }
  }

  async #makeFolder(path: string): Promise<void> {
    await createOnce(path, () => mkdir(this.#resolvePath(path)));
    this.#folders.add(path);
  }

  async #writeFile(entry: TreeEntry, content: AsyncIterable<Uint8Array>): Promise<void> {
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
    const mode = entry.type === "executable" ? 0o755 : 0o644;
    const file: FileHandle = await createOnce(entry.path, () =>
      open(this.#resolvePath(entry.path), flags, mode),
    );
    try {
      for await (const chunk of this.#countBytes(content, Number.POSITIVE_INFINITY, entry.path))
        await file.writeFile(chunk);
      // The mode is set explicitly, so that the umask of the service does not change the files in the built image.
      await file.chmod(mode);
    } finally {
      await file.close();
    }
  }

  async *#countBytes(
    content: AsyncIterable<Uint8Array>,
    most: number,
    path: string,
  ): AsyncGenerator<Uint8Array> {
    let bytes = 0;
    for await (const chunk of content) {
      this.#signal.throwIfAborted();
      bytes += chunk.length;
      this.#bytes += chunk.length;
      if (bytes > most) throw invalidTree(`the link ${JSON.stringify(path)} is too long`);
      if (this.#bytes > this.#limits.bytesMax)
        throw repositoryTooLarge("bytes", this.#limits.bytesMax);
      yield chunk;
    }
  }

  #resolvePath(path: string): string {
    const folder = path.slice(0, Math.max(0, path.lastIndexOf("/")));
    if (!this.#folders.has(folder))
      throw invalidTree(`${JSON.stringify(path)} is in a folder that the commit does not list`);
    return join(this.#dir, path);
  }
}

/**
 * Creates the entry at `path` with `make`. Throws an error that blames the commit if the path exists, or if the file
 * system treats another name of the commit as equal.
 */
async function createOnce<T>(path: string, make: () => Promise<T>): Promise<T> {
  try {
    return await make();
  } catch (error) {
    const code = getErrorCode(error);
    if (code === "EEXIST" || code === "ELOOP")
      throw invalidTree(`the commit has ${JSON.stringify(path)} twice`);
    if (code === "ENAMETOOLONG" || code === "EINVAL" || code === "EILSEQ")
      throw invalidTree(
        `this machine's file system does not allow the file name ${JSON.stringify(path)}`,
      );
    throw error;
  }
}
