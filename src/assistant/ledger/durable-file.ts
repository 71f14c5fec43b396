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

/**
 * Replaces a file atomically: after a power cut the file has either the old or the new text. Flushes the file and its
 * directory.
 */
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

/** Returns the text of a file, or undefined if the file does not exist. */
export function readFileIfExists(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}
