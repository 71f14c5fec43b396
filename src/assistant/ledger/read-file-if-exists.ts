import { readFileSync } from "node:fs";
import { getErrorCode } from "../../base/errors.ts";

/** Returns the text of a file, or undefined if the file does not exist. */
export function readFileIfExists(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    if (getErrorCode(error) === "ENOENT") return undefined;
    throw error;
  }
}
