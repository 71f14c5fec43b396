import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { getErrorCode } from "../../base/errors.ts";
import { tryParseJson } from "../../base/json.ts";
import { writeAtomically } from "./git-files.ts";

/** The file that marks a folder as the mirror of a repository. The mirror writes only to a folder with this file. */
export const MARKER_FILE = ".berth-git.json";

export interface Marker {
  readonly url: string;
  readonly ref: string | null;
  /** The commit of the files; null until all files of a commit have been written once. */
  readonly commit: string | null;
  readonly applied_at: string | null;
}

/** Reads the marker of a folder; undefined if there is none. For an unreadable marker, the fields are empty. */
export async function readMarker(folder: string): Promise<Marker | undefined> {
  let text: string;
  try {
    text = await readFile(join(folder, MARKER_FILE), "utf8");
  } catch (error) {
    if (getErrorCode(error) === "ENOENT") return undefined;
    throw error;
  }
  const value = tryParseJson(text);
  const field = (key: string): string | null => {
    const found: unknown =
      typeof value === "object" && value !== null ? Reflect.get(value, key) : "";
    return typeof found === "string" ? found : null;
  };
  return {
    url: field("url") ?? "",
    ref: field("ref"),
    commit: field("commit"),
    applied_at: field("applied_at"),
  };
}

export async function writeMarker(folder: string, marker: Marker): Promise<void> {
  await writeAtomically(join(folder, MARKER_FILE), `${JSON.stringify(marker, null, 2)}\n`);
}
