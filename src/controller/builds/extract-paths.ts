import { BerthError } from "../../base/errors.ts";

/** In bytes; Linux takes 4096 with the folder that the archive is unpacked into. */
const PATH_BYTES_MAX = 2048;
const NAME_BYTES_MAX = 255;
const DEPTH_MAX = 128;

/**
 * The path of an entry below the folder that it is unpacked into: without `.`, doubled and closing
 * slashes; `""` is that folder itself. Nothing that means another place is made harmless: whoever
 * wrote it is told. Throws `archive_invalid`.
 */
export function normalizeEntryPath(written: string): string {
  if (written.startsWith("/")) throw refusedEntryError(written, "which is an absolute path");
  const parts = written.split("/").filter((part) => part !== "" && part !== ".");
  if (parts.includes("..")) throw refusedEntryError(written, "whose path leads out with ..");
  if (hasControlCharacters(written))
    throw refusedEntryError(written, "whose name has control characters");
  if (written.includes("\u{fffd}")) throw refusedEntryError(written, "whose name is not UTF-8");
  if (Buffer.byteLength(written) > PATH_BYTES_MAX)
    throw refusedEntryError(written, `whose path is longer than ${PATH_BYTES_MAX} bytes`);
  if (parts.some((part) => Buffer.byteLength(part) > NAME_BYTES_MAX))
    throw refusedEntryError(written, `whose name is longer than ${NAME_BYTES_MAX} bytes`);
  if (parts.length > DEPTH_MAX)
    throw refusedEntryError(written, `which is deeper than ${DEPTH_MAX} folders`);
  return parts.join("/");
}

export function refusedEntryError(path: string, why: string, hint?: string): BerthError {
  // In JSON, so that no name can draw on a terminal.
  const shown = JSON.stringify(path.length > 200 ? `${path.slice(0, 200)}...` : path);
  return new BerthError(
    "archive_invalid",
    `the archive holds ${shown}, ${why}: it was not unpacked`,
    {
      hint: hint ?? "make it from the source folder alone; `berth deploy FOLDER` does that",
    },
  );
}

function hasControlCharacters(text: string): boolean {
  return Array.from(text).some((character) => character < " " || character === "\u{7f}");
}
