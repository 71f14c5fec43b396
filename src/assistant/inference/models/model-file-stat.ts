import { stat } from "node:fs/promises";

/** Matches the end of the file name of a model's part, without `.gguf`. */
export const splitPartPattern = /-(?<part>[0-9]{5})-of-(?<count>[0-9]{5})$/;

/**
 * The maximum number of parts, more than any model has; a file whose name claims more parts is treated as a single
 * file.
 */
const PARTS_MAX = 512;

export interface ModelFileStat {
  /** The latest change of the model's files, in epoch milliseconds; 0 if they cannot be read. */
  readonly modifiedMs: number;
  /** The size of all files of the model; undefined if the files cannot be read. */
  readonly sizeBytes: number | undefined;
}

/**
 * Returns the size and the modification time of a model's file. `path` is the file, or the first part of a split model;
 * "" stands for the stub's model, which has no file.
 */
export async function statModelFile(path: string): Promise<ModelFileStat> {
  if (path === "") return { modifiedMs: 0, sizeBytes: undefined };
  const stats = await Promise.all(
    listPartPaths(path).map((part) => stat(part).catch(() => undefined)),
  );
  const found = stats.filter((one) => one !== undefined);
  if (found.length === 0) return { modifiedMs: 0, sizeBytes: undefined };
  return {
    modifiedMs: Math.max(...found.map(({ mtimeMs }) => mtimeMs)),
    sizeBytes: found.reduce((total, { size }) => total + size, 0),
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
