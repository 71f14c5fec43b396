import { rename, writeFile } from "node:fs/promises";

/**
 * Writes the facts of a running daemon to a file with mode 0600. The write is atomic, because other processes may
 * read the file at any moment.
 */
export async function writeReadyFile(file: string, ready: object): Promise<void> {
  await writeFile(`${file}.new`, `${JSON.stringify(ready, null, 2)}\n`, { mode: 0o600 });
  await rename(`${file}.new`, file);
}
