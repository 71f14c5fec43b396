import { posix } from "node:path";
import type { SourceReader } from "../../../../src/resources/recipe/source-reader.ts";

/** Creates a source in memory from paths and texts. An object is converted to JSON text. */
export function createMemorySource(files: Readonly<Record<string, unknown>>): SourceReader {
  const texts = new Map(
    Object.entries(files).map(([path, content]) => [
      path,
      typeof content === "string" ? content : JSON.stringify(content),
    ]),
  );
  const folders = new Map<string, Set<string>>();
  for (const path of texts.keys())
    for (let at = path; at !== "."; at = posix.dirname(at)) {
      const folder = posix.dirname(at) === "." ? "" : posix.dirname(at);
      folders.set(folder, (folders.get(folder) ?? new Set()).add(posix.basename(at)));
    }
  return {
    has: (path) => texts.has(path) || folders.has(path),
    list: (folder) => [...(folders.get(folder) ?? [])].toSorted(),
    read: async (path) => texts.get(path),
  };
}
