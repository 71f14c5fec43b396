import {
  closeSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";
import { fsyncDirectorySync } from "../../base/sqlite.ts";

/** Replaces a file so that after a power cut it is the old or the new one, whole. Two flushes. */
export function replaceFileDurably(file: string, text: string, mode: number): void {
  const draft = `${file}.new`;
  rmSync(draft, { force: true });
  const handle = openSync(draft, "wx", mode);
  try {
    writeSync(handle, text);
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
  renameSync(draft, file);
  fsyncDirectorySync(dirname(file));
}

/** Undefined where there is no such file. */
export function readFileIfExists(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}
