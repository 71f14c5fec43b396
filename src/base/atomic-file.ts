import { open, rename } from "node:fs/promises";
import { dirname } from "node:path";

/** Writes a file with mode 0600. Other processes see either its old content or all of the new content. */
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

/** Writes like `writeAtomically`. When the function returns, content and name have been flushed to the disk. */
export async function writeDurably(file: string, text: string): Promise<void> {
  await writeAtomically(file, text);
  await fsyncDirectory(dirname(file));
}

/** Flushes a folder to the disk, so that added and removed names survive a power cut. */
export async function fsyncDirectory(dir: string): Promise<void> {
  const handle = await open(dir, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
