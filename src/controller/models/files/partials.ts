import { createHash } from "node:crypto";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { ResolvedFile } from "../hub/port.ts";
import { inspectPartial, readPartialDiskUse, removePartial } from "./partial-file.ts";

export interface PartialInfo {
  readonly content: string;
  readonly sizeBytes: number;
  readonly changedMs: number;
  /** Keys of the models that need the file. */
  readonly keys: readonly string[];
}

/** Incomplete files, each in a folder whose name is the content id (see `getContentId`). */
export class Partials {
  readonly #dir: string;

  constructor(dir: string) {
    this.#dir = dir;
  }

  getPath(content: string): string {
    return join(this.#dir, content);
  }

  /** Returns the number of bytes of a partial file that have been flushed to the disk. */
  async countBytes(content: string): Promise<number> {
    return (await inspectPartial(this.getPath(content))).bytes;
  }

  async list(): Promise<PartialInfo[]> {
    const found: PartialInfo[] = [];
    for (const content of await readdir(this.#dir).catch(() => [])) {
      const path = this.getPath(content);
      const [use, { entry }] = await Promise.all([readPartialDiskUse(path), inspectPartial(path)]);
      // A folder without an intact partial file counts as very old, so that it is removed first.
      found.push({
        content,
        sizeBytes: use?.sizeBytes ?? 0,
        changedMs: use?.changedMs ?? 0,
        keys: entry?.keys ?? [],
      });
    }
    return found;
  }

  async remove(content: string): Promise<void> {
    await removePartial(this.getPath(content));
  }
}

/** Returns a content id: the digest, or else a hash of the URL. Files with the same id are downloaded once. */
export function getContentId(file: ResolvedFile, url: string): string {
  if (file.sha256 !== null) return `sha256-${file.sha256}`;
  if (file.gitBlob !== null) return `git-${file.gitBlob}`;
  return `url-${createHash("sha256").update(url).digest("hex")}`;
}
