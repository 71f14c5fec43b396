import { randomBytes } from "node:crypto";
import { closeSync, fstatSync, openSync, readFileSync, renameSync, writeSync } from "node:fs";
import { join } from "node:path";

interface HolderFile {
  readonly id: string;
  readonly inode: string;
  readonly birth: string;
}

/**
 * Returns the id of this data directory. The engine's lease identifies its holder by this id. The file of the id
 * contains its own inode and creation time. A copied or restored directory therefore gets another id, and a renamed
 * one keeps its id.
 */
export function readHolderId(dataDir: string): string {
  const file = join(dataDir, "holder.json");
  const id = readValidId(file);
  if (id !== undefined) return id;
  const made = randomBytes(8).toString("hex");
  try {
    writeId(file, made);
  } catch {
    // On a full disk the id is not stored. The next process then has another id, and has to wait until the lease of
    // this process has expired.
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
