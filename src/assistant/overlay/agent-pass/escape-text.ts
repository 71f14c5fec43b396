const ELLIPSIS = "…";

/**
 * Escapes text from outside for models and people: control characters, invisible characters and characters that
 * reverse the direction of a line, which can hide words, are written as escapes. A lone surrogate becomes U+FFFD.
 * Line breaks, tabs, and the joiners that scripts and emoji need are not changed.
 */
export function escapeText(text: string): string {
  return Buffer.from(text.replaceAll(/\r\n?/g, "\n"))
    .toString()
    .replaceAll(
      /(?![\n\t\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u3164]/gu,
      (character) => `\\u{${character.codePointAt(0)?.toString(16) ?? ""}}`,
    );
}

/** Escapes text like `escapeText`, and converts it to one line of at most `charsMax` characters. */
export function escapeLine(text: string, charsMax: number): string {
  return truncateText(
    escapeText(text.slice(0, 2 * charsMax).replaceAll(/\s+/g, " ")).trim(),
    charsMax,
  );
}

/** Cuts a text to at most `charsMax` characters, of which the last is then an ellipsis. Does not split a code point. */
export function truncateText(text: string, charsMax: number): string {
  return text.length <= charsMax ? text : `${sliceCodePoints(text, charsMax - 1)}${ELLIPSIS}`;
}

/** Cuts a text to at most `bytesMax` bytes of UTF-8. */
export function truncateBytes(text: string, bytesMax: number): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= bytesMax) return text;
  let end = bytesMax - Buffer.byteLength(ELLIPSIS);
  // The cut must not be before a continuation byte of UTF-8 (10xxxxxx).
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return `${bytes.toString("utf8", 0, end)}${ELLIPSIS}`;
}

function sliceCodePoints(text: string, length: number): string {
  return text.slice(0, length).replace(/[\ud800-\udbff]$/, "");
}
