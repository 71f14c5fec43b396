import { stat } from "node:fs/promises";

/** Parts of a model that is split over several files: the first one stands for all. */
export const splitPartPattern = /-(?<part>[0-9]{5})-of-(?<count>[0-9]{5})$/;

/** More parts than any model has; what a file's name says is not believed beyond that. */
const PARTS_MAX = 512;

/** When a model's files were last written, in milliseconds since the Unix epoch, and their size in bytes. */
export interface ModelFileStat {
  /** 0 where they cannot be looked at: loading them will say why. */
  readonly modifiedMs: number;
  readonly sizeBytes: number | undefined;
}

/** `path`: "" for the stub's, which has no file; of a split model the first part. */
export async function statModelFile(path: string): Promise<ModelFileStat> {
  if (path === "") return { modifiedMs: 0, sizeBytes: undefined };
  const stats = await Promise.all(
    listPartPaths(path).map((part) => stat(part).catch(() => undefined)),
  );
  const there = stats.filter((look) => look !== undefined);
  if (there.length === 0) return { modifiedMs: 0, sizeBytes: undefined };
  return {
    modifiedMs: Math.max(...there.map(({ mtimeMs }) => mtimeMs)),
    sizeBytes: there.reduce((total, { size }) => total + size, 0),
  };
}

function listPartPaths(path: string): readonly string[] {
  const stem = path.replace(/\.gguf$/, "");
  const count = Number(splitPartPattern.exec(stem)?.groups?.["count"]);
  if (stem === path || !(count > 1 && count <= PARTS_MAX)) return [path];
  return Array.from({ length: count }, (_, index) => {
    const part = String(index + 1).padStart(5, "0");
    return stem.replace(splitPartPattern, (_whole, _part, of: string) => `-${part}-of-${of}.gguf`);
  });
}
