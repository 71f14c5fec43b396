import { readFile, stat, utimes } from "node:fs/promises";
import { writeDurably } from "../../../base/atomic-file.ts";

/** The state of a file when it was last verified. */
export interface FileStamp {
  readonly sizeBytes: number;
  /** Nanoseconds as a decimal text, because a number does not have enough digits. */
  readonly modifiedNs: string;
  readonly inode: string;
}

/** Returns the size, modification time and inode of the file at this path; undefined if there is no regular file. */
export async function readFileStamp(path: string): Promise<FileStamp | undefined> {
  try {
    const found = await stat(path, { bigint: true });
    if (!found.isFile()) return undefined;
    return {
      sizeBytes: Number(found.size),
      modifiedNs: String(found.mtimeNs),
      inode: String(found.ino),
    };
  } catch {
    return undefined;
  }
}

export function isSameStamp(a: FileStamp, b: FileStamp): boolean {
  return a.sizeBytes === b.sizeBytes && a.modifiedNs === b.modifiedNs && a.inode === b.inode;
}

export interface VerificationNote {
  readonly stamp: FileStamp;
  readonly sha256: string;
}

/** Reads the note of a file's verification; undefined if there is no readable note. The file is then verified again. */
export async function readVerificationNote(path: string): Promise<VerificationNote | undefined> {
  try {
    const value: unknown = JSON.parse(await readFile(path, "utf8"));
    if (typeof value !== "object" || value === null) return undefined;
    const fields = new Map<string, unknown>(Object.entries(value));
    const [sizeBytes, modifiedNs, inode, sha256] = [
      "sizeBytes",
      "modifiedNs",
      "inode",
      "sha256",
    ].map((name) => fields.get(name));
    if (typeof sizeBytes !== "number" || typeof modifiedNs !== "string") return undefined;
    if (typeof inode !== "string" || typeof sha256 !== "string") return undefined;
    return { stamp: { sizeBytes, modifiedNs, inode }, sha256 };
  } catch {
    return undefined;
  }
}

export async function writeVerificationNote(
  path: string,
  note: VerificationNote,
  nowMs: number,
): Promise<void> {
  await writeDurably(path, `${JSON.stringify({ ...note.stamp, sha256: note.sha256 })}\n`);
  await updateLastUsed(path, nowMs);
}

/** Sets the modification time of a file's verification note, which is the time of the last use of that file. */
export async function updateLastUsed(path: string, nowMs: number): Promise<void> {
  await utimes(path, nowMs / 1000, nowMs / 1000);
}
