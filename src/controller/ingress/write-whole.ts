import { open, rename } from "node:fs/promises";

/** Written whole or not at all, for this user only. */
export async function writeWhole(file: string, text: string): Promise<void> {
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
