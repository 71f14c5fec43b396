import { open, rename } from "node:fs/promises";
import { dirname } from "node:path";

/** Written whole or not at all, for this user only. */
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

/** The same, and on the disk under its name when it has returned. */
export async function writeDurably(file: string, text: string): Promise<void> {
  await writeAtomically(file, text);
  await fsyncDirectory(dirname(file));
}

/** Makes names that were added to, or taken out of, a folder outlive a power cut. */
export async function fsyncDirectory(dir: string): Promise<void> {
  const handle = await open(dir, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
