import {
  closeSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  unlinkSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { fsyncDirectorySync } from "../../../base/sqlite.ts";
import { KEY_BYTES } from "./app-key.ts";

/** No app's id begins with a dot. */
const UNFINISHED = ".new";

/**
 * A file for the secret of each app, 32 bytes under the app's id: the only thing that makes what is in the
 * database readable. It lies apart from the database because a file can be overwritten where it is and
 * then removed, whatever another program is reading of the database at that time.
 */
export class KeyFolder {
  readonly #dir: string;

  /** Makes the folder, mode 0700. Throws what the system says. */
  constructor(dir: string) {
    this.#dir = dir;
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    rmSync(join(dir, UNFINISHED), { force: true });
  }

  listApps(): readonly string[] {
    return readdirSync(this.#dir).filter((name) => name !== UNFINISHED);
  }

  /** Undefined: there is none, or it is none any more. */
  read(app: string): Buffer | undefined {
    try {
      const secret = readFileSync(join(this.#dir, app));
      return secret.length === KEY_BYTES && secret.some((byte) => byte !== 0) ? secret : undefined;
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
  }

  /** On the disk, whole, when it returns. */
  write(app: string, secret: Uint8Array): void {
    const unfinished = join(this.#dir, UNFINISHED);
    try {
      const handle = openSync(unfinished, "w", 0o600);
      try {
        writeSync(handle, secret);
        fsyncSync(handle);
      } finally {
        closeSync(handle);
      }
      renameSync(unfinished, join(this.#dir, app));
      fsyncDirectorySync(this.#dir);
    } catch (error) {
      rmSync(unfinished, { force: true });
      throw error;
    }
  }

  /**
   * Overwrites the secret in its place, flushes that, and removes the file. Nothing where there is none.
   * What a file system keeps of old blocks by itself (copy on write, snapshots) is out of reach.
   */
  destroy(app: string): void {
    const file = join(this.#dir, app);
    try {
      const handle = openSync(file, "r+");
      try {
        writeSync(
          handle,
          Buffer.alloc(Math.max(KEY_BYTES, fstatSync(handle).size)),
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
      if (isMissing(error)) return;
      throw error;
    }
    fsyncDirectorySync(this.#dir);
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ENOENT";
}
