import {
  closeSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  unlinkSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { fsyncDirectorySync, replaceFileSync } from "../../../base/atomic-file.ts";
import { getErrorCode } from "../../../base/errors.ts";
import { SECRET_BYTES } from "../../../base/sealing-key.ts";

/** The name of a key file that is being written. It cannot be the id of an app, because no id begins with a dot. */
const UNFINISHED = ".new";

/**
 * Stores the secret of each app, 32 bytes, in a file named after the app's id. The app's values cannot be decrypted
 * without it. The file is not part of the database, because a file can be overwritten in place and deleted even while
 * another program reads the database.
 */
export class KeyFolder {
  readonly #dir: string;

  /** Creates the folder with mode 0700. Throws the system's errors. */
  constructor(dir: string) {
    this.#dir = dir;
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    rmSync(join(dir, UNFINISHED), { force: true });
  }

  listApps(): readonly string[] {
    return readdirSync(this.#dir).filter((name) => name !== UNFINISHED);
  }

  /** Reads the secret of an app; undefined if it has none, or if the secret has been overwritten. */
  read(app: string): Buffer | undefined {
    try {
      const secret = readFileSync(join(this.#dir, app));
      return secret.length === SECRET_BYTES && secret.some((byte) => byte !== 0)
        ? secret
        : undefined;
    } catch (error) {
      if (getErrorCode(error) === "ENOENT") return undefined;
      throw error;
    }
  }

  /** Writes a secret atomically and flushes it. */
  write(app: string, secret: Uint8Array): void {
    replaceFileSync(join(this.#dir, app), secret, { draft: join(this.#dir, UNFINISHED) });
  }

  /**
   * Overwrites the secret in place, flushes it and deletes the file, if it exists. Copies of old blocks that a file
   * system keeps (copy on write, snapshots) cannot be overwritten.
   */
  destroy(app: string): void {
    const file = join(this.#dir, app);
    try {
      const handle = openSync(file, "r+");
      try {
        writeSync(
          handle,
          Buffer.alloc(Math.max(SECRET_BYTES, fstatSync(handle).size)),
          0,
          undefined,
          0,
        );
        fsyncSync(handle);
        ftruncateSync(handle, 0);
      } finally {
        closeSync(handle);
      }
      unlinkSync(file);
    } catch (error) {
      if (getErrorCode(error) === "ENOENT") return;
      throw error;
    }
    fsyncDirectorySync(this.#dir);
  }
}
