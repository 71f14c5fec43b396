import { rename, writeFile } from "node:fs/promises";

/** Writes the facts of a running daemon to a file that other processes may read at any moment: atomically, mode 0600. */
export async function writeReadyFile(file: string, ready: object): Promise<void> {
  await writeFile(`${file}.new`, `${JSON.stringify(ready, null, 2)}\n`, { mode: 0o600 });
  await rename(`${file}.new`, file);
}
