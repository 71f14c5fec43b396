import { rename, writeFile } from "node:fs/promises";

/** What a daemon says of itself, in a file that others read at any moment: written whole or not at all, mode 0600. */
export async function writeReadyFile(file: string, ready: object): Promise<void> {
  await writeFile(`${file}.new`, `${JSON.stringify(ready, null, 2)}\n`, { mode: 0o600 });
  await rename(`${file}.new`, file);
}
