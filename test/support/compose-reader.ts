import { existsSync, readFileSync } from "node:fs";
import { relative } from "node:path";
import type { ComposeFileReader } from "../../src/compose/load-project.ts";

/** Returns a reader of the files on the disk, which shows paths relative to `folder`. */
export function readFolderFiles(folder: string): ComposeFileReader {
  return {
    read: (path) => {
      try {
        return { text: readFileSync(path, "utf8") };
      } catch {
        return { problem: "there is no such file" };
      }
    },
    exists: existsSync,
    displayPath: (path) => relative(folder, path),
  };
}
