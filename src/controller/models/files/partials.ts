import { createHash } from "node:crypto";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { ResolvedFile } from "../hub/port.ts";
import { inspectPartial, readPartialDiskUse, removePartial } from "./partial-file.ts";

export interface PartialInfo {
  readonly content: string;
  readonly sizeBytes: number;
  readonly changedMs: number;
  /** Keys of the models that have asked for it. */
  readonly keys: readonly string[];
}

/** Files that are half there, each in a folder that is named after what it will be. */
export class Partials {
  readonly #dir: string;

  constructor(dir: string) {
    this.#dir = dir;
  }

  getPath(content: string): string {
    return join(this.#dir, content);
  }

  /** Bytes that are there for certain. */
  async countBytes(content: string): Promise<number> {
    return (await inspectPartial(this.getPath(content))).bytes;
  }

  async list(): Promise<PartialInfo[]> {
    const found: PartialInfo[] = [];
    for (const content of await readdir(this.#dir).catch(() => [])) {
      const path = this.getPath(content);
      const [use, { entry }] = await Promise.all([readPartialDiskUse(path), inspectPartial(path)]);
      // What is no partial file, or a broken one, is as old as can be.
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

/** What a file will be, as far as anybody can tell: two with one name are downloaded once. */
export function getContentId(file: ResolvedFile, url: string): string {
  if (file.sha256 !== null) return `sha256-${file.sha256}`;
  if (file.gitBlob !== null) return `git-${file.gitBlob}`;
  return `url-${createHash("sha256").update(url).digest("hex")}`;
}
