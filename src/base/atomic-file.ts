import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeSync } from "node:fs";
import { open, rename } from "node:fs/promises";
import { dirname } from "node:path";

/** Writes a file with mode 0600. Other processes see either the old content or all of the new content. */
export async function writeAtomically(file: string, text: string): Promise<void> {
  const made = `${file}.new`;
  const handle = await open(made, "w", 0o600);
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(made, file);
}

/**
 * Writes a file as `writeAtomically` does. When the function returns, content and name have been flushed to the disk.
 */
export async function writeDurably(file: string, text: string): Promise<void> {
  await writeAtomically(file, text);
  await fsyncDirectory(dirname(file));
}

/** Flushes a folder to the disk like `fsyncDirectorySync`, but without blocking the event loop. */
export async function fsyncDirectory(dir: string): Promise<void> {
  const handle = await open(dir, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/**
 * Replaces a file atomically: after a power cut it has either its old or its new content. Flushes content and name to
 * the disk unless `isFlushed` is false. `draft` is the path of a temporary file in the same folder, which is written
 * first and then renamed.
 */
export function replaceFileSync(
  file: string,
  content: string | Uint8Array,
  options: { readonly draft?: string; readonly isFlushed?: boolean } = {},
): void {
  const { draft = `${file}.new`, isFlushed = true } = options;
  rmSync(draft, { force: true });
  try {
    const handle = openSync(draft, "wx", 0o600);
    try {
      // TypeScript accepts no union of text and bytes for the overloads of `writeSync`, so text is converted to bytes
      // first.
      writeSync(handle, Buffer.from(content));
      if (isFlushed) fsyncSync(handle);
    } finally {
      closeSync(handle);
    }
    renameSync(draft, file);
  } catch (error) {
    rmSync(draft, { force: true });
    throw error;
  }
  if (isFlushed) fsyncDirectorySync(dirname(file));
}

/** Flushes a folder to the disk, so that added and removed names survive a power cut. */
export function fsyncDirectorySync(directory: string): void {
  const handle = openSync(directory, "r");
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}
