import { constants } from "node:fs";
import { type FileHandle, link, open, rm } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { fsyncDirectory } from "../../base/atomic-file.ts";
import { getErrorCode } from "../../base/errors.ts";
import { SECRET_BYTES } from "../../base/sealing-key.ts";
import { type FoundKey, KeyNotStoredError, type KeySource } from "./port.ts";

/**
 * A key of 32 bytes in a file of the data directory, for machines without a better source. It protects what it
 * encrypts only if the database is copied without this file.
 */
export class KeyFile implements KeySource {
  readonly name = "file";
  readonly #file: string;
  readonly #uid: number;

  constructor(file: string, uid: number = process.geteuid?.() ?? 0) {
    this.#file = file;
    this.#uid = uid;
  }

  async probe(): Promise<FoundKey> {
    let handle: FileHandle | undefined;
    try {
      // Links and special files are refused: a link could point to another user's file, and opening a FIFO would block.
      const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
      handle = await open(this.#file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
      return await this.#read(handle);
    } catch (error) {
      const code = getErrorCode(error) ?? "no code";
      if (code === "ENOENT") return { state: "empty" };
      if (code === "ELOOP") return this.#lockedKey("is a link; replace it with the file itself");
      return this.#lockedKey(`cannot be read (${code}); check its owner and the disk`);
    } finally {
      await handle?.close();
    }
  }

  /** Creates the file and never replaces an existing one: of two processes that create it, the second one fails. */
  async store(key: Buffer): Promise<void> {
    const unfinished = `${this.#file}.new`;
    try {
      // Removes the temporary file of a process that was killed while it wrote the key.
      await rm(unfinished, { force: true });
      const handle = await open(unfinished, "wx", 0o600);
      try {
        await handle.chmod(0o600); // the umask may have removed permissions
        await handle.writeFile(key);
        await handle.sync();
      } finally {
        await handle.close();
      }
      // The file is linked instead of renamed, because renaming would replace an existing file.
      await link(unfinished, this.#file);
      await rm(unfinished);
      await fsyncDirectory(dirname(this.#file));
    } catch (error) {
      await rm(unfinished, { force: true }).catch(() => {});
      throw new KeyNotStoredError(
        `the file ${basename(this.#file)} cannot be created (${getErrorCode(error) ?? "no code"}); check the disk and the permissions of the assistant's data directory`,
        error,
      );
    }
  }

  async #read(handle: FileHandle): Promise<FoundKey> {
    const found = await handle.stat();
    if (!found.isFile())
      return this.#lockedKey("is not a file; replace it with the file of the key");
    if (found.uid !== this.#uid)
      return this.#lockedKey(
        "belongs to another user; change its owner to the user who runs the assistant",
      );
    if ((found.mode & 0o7777) !== 0o600)
      return this.#lockedKey(
        `has the mode 0${(found.mode & 0o7777).toString(8)}, so other users may have read it; if you still trust it: chmod 600 ${basename(this.#file)}`,
      );
    if (found.size !== SECRET_BYTES)
      return this.#lockedKey(
        `has ${found.size} bytes in place of ${SECRET_BYTES}; restore it from a backup`,
      );
    const key = Buffer.alloc(SECRET_BYTES);
    const { bytesRead } = await handle.read(key, 0, SECRET_BYTES, 0);
    return bytesRead === SECRET_BYTES
      ? { state: "key", key }
      : this.#lockedKey("was truncated while it was read; restore it from a backup");
  }

  #lockedKey(what: string): FoundKey {
    const name = basename(this.#file);
    return { state: "locked", why: `the file ${name} in the assistant's data directory ${what}` };
  }
}
