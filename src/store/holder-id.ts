import { randomBytes } from "node:crypto";
import { closeSync, fstatSync, openSync, readFileSync, renameSync, writeSync } from "node:fs";
import { join } from "node:path";

interface HolderFile {
  readonly id: string;
  readonly inode: string;
  readonly birth: string;
}

/**
 * Returns the id of this data directory, by which it is recognised as the holder of the lease on the engine. The file
 * of the id records its own inode and time of creation, so that a copy of the directory, or a restored one, gets
 * another id, and one that was renamed keeps its id.
 */
export function readHolderId(dataDir: string): string {
  const file = join(dataDir, "holder.json");
  const id = readValidId(file);
  if (id !== undefined) return id;
  const made = randomBytes(8).toString("hex");
  try {
    writeId(file, made);
  } catch {
    // On a full disk the id is not stored. The next process then has another id, and waits until the lease of this one
    // has expired.
  }
  return made;
}

function readValidId(file: string): string | undefined {
  let handle: number | undefined;
  try {
    handle = openSync(file, "r");
    const { id, inode, birth }: Partial<HolderFile> = JSON.parse(readFileSync(handle, "utf8"));
    const identity = readIdentity(handle);
    return inode === identity.inode && birth === identity.birth ? id : undefined;
  } catch {
    return undefined;
  } finally {
    if (handle !== undefined) closeSync(handle);
  }
}

function writeId(file: string, id: string): void {
  const partial = `${file}.partial-${randomBytes(4).toString("hex")}`;
  const handle = openSync(partial, "wx", 0o600);
  try {
    writeSync(handle, `${JSON.stringify({ id, ...readIdentity(handle) } satisfies HolderFile)}\n`);
  } finally {
    closeSync(handle);
  }
  renameSync(partial, file);
}

function readIdentity(handle: number): Pick<HolderFile, "inode" | "birth"> {
  const { ino, birthtimeNs } = fstatSync(handle, { bigint: true });
  return { inode: String(ino), birth: String(birthtimeNs) };
}
