import { BerthError } from "../../base/errors.ts";

/**
 * The maximum length of a path in an archive, in bytes. Linux allows 4096 bytes including the path of the target
 * folder.
 */
export const PATH_BYTES_MAX = 2048;
const NAME_BYTES_MAX = 255;
const DEPTH_MAX = 128;

/**
 * Normalizes the path of an entry: removes `.`, double and trailing slashes. The result `""` is the target folder
 * itself. A path that leads out of the target folder is refused rather than rewritten. Throws `archive_invalid`.
 */
export function normalizeEntryPath(written: string): string {
  if (written.startsWith("/")) throw refusedEntryError(written, "the path is absolute");
  const parts = written.split("/").filter((part) => part !== "" && part !== ".");
  if (parts.includes("..")) throw refusedEntryError(written, "the path leaves the archive with ..");
  if (hasControlCharacters(written))
    throw refusedEntryError(written, "the name has control characters");
  if (written.includes("\u{fffd}")) throw refusedEntryError(written, "the name is not UTF-8");
  if (Buffer.byteLength(written) > PATH_BYTES_MAX)
    throw refusedEntryError(written, `the path is longer than ${PATH_BYTES_MAX} bytes`);
  if (parts.some((part) => Buffer.byteLength(part) > NAME_BYTES_MAX))
    throw refusedEntryError(written, `the name is longer than ${NAME_BYTES_MAX} bytes`);
  if (parts.length > DEPTH_MAX)
    throw refusedEntryError(written, `the path is deeper than ${DEPTH_MAX} folders`);
  return parts.join("/");
}

export function refusedEntryError(path: string, why: string, hint?: string): BerthError {
  // JSON escapes control characters, which could affect a terminal.
  const shown = JSON.stringify(path.length > 200 ? `${path.slice(0, 200)}...` : path);
  return new BerthError(
    "archive_invalid",
    `the archive was not unpacked because of its entry ${shown}: ${why}`,
    {
      hint: hint ?? "create the archive from the source folder only, or use `berth deploy FOLDER`",
    },
  );
}

function hasControlCharacters(text: string): boolean {
  return Array.from(text).some((character) => character < " " || character === "\u{7f}");
}
