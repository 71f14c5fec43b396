import { createHash } from "node:crypto";
import type { SourceTree } from "./list-source.ts";
import { readContent } from "./pack-source.ts";

/**
 * Computes the sha256 (64 hexadecimal digits) of the paths, modes and contents of a listed folder. Two folders have
 * equal digests if and only if packSource packs them into equal bytes. Throws the errors of packSource's stream.
 */
export async function digestSource(tree: SourceTree, signal: AbortSignal): Promise<string> {
  const hash = createHash("sha256");
  for (const entry of tree.entries) {
    signal.throwIfAborted();
    // The fields are written as JSON, so that no file name can look like the end of one field and the start of the
    // next.
    const { path, type, mode, size, target = "" } = entry;
    hash.update(`${JSON.stringify([path, type, mode, size, target])}\n`);
    if (type !== "file") continue;
    for await (const chunk of readContent(tree.dir, entry, signal)) hash.update(chunk);
  }
  return hash.digest("hex");
}
