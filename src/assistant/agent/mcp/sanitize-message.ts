const MESSAGE_CHARS_MAX = 500;

/** An app's own words, fit to stand in an error: one line, without control characters, and not long. */
export function sanitizeMessage(text: string): string {
  // Cut first: what follows would walk through megabytes.
  const line = text
    .slice(0, 4 * MESSAGE_CHARS_MAX)
    .replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, " ")
    .trim();
  if (line.length <= MESSAGE_CHARS_MAX) return line;
  // Not through the middle of a character that takes two.
  return `${line.slice(0, MESSAGE_CHARS_MAX - 1).replace(/[\uD800-\uDBFF]$/, "")}…`;
}
