const MESSAGE_CHARS_MAX = 500;

/** Makes a text from an app safe for an error message: one short line without control characters. */
export function sanitizeMessage(text: string): string {
  // The text is cut first, so that the regular expression does not scan megabytes.
  const line = text
    .slice(0, 4 * MESSAGE_CHARS_MAX)
    .replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\s]+/gu, " ")
    .trim();
  if (line.length <= MESSAGE_CHARS_MAX) return line;
  // A high surrogate at the cut is removed, so that no half of a pair remains.
  return `${line.slice(0, MESSAGE_CHARS_MAX - 1).replace(/[\uD800-\uDBFF]$/, "")}…`;
}
