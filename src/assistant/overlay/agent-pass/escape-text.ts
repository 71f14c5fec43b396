const ELLIPSIS = "…";

/**
 * Text of strangers, for a model and for people: control characters are written out, and so are characters
 * that nobody sees or that turn the direction of a line, in which words can hide. Half a code point becomes the
 * character that stands for that. Line breaks and tabs stay, and the joiners that scripts and emoji need.
 */
export function escapeText(text: string): string {
  return Buffer.from(text.replaceAll(/\r\n?/g, "\n"))
    .toString()
    .replaceAll(
      /(?![\n\t\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u3164]/gu,
      (character) => `\\u{${character.codePointAt(0)?.toString(16) ?? ""}}`,
    );
}

/** The same in one line. */
export function escapeLine(text: string, charsMax: number): string {
  return truncateText(
    escapeText(text.slice(0, 2 * charsMax).replaceAll(/\s+/g, " ")).trim(),
    charsMax,
  );
}

/** At most so many characters, the last of which says that more has been there; whole code points. */
export function truncateText(text: string, charsMax: number): string {
  return text.length <= charsMax ? text : `${sliceCodePoints(text, charsMax - 1)}${ELLIPSIS}`;
}

/** The same in bytes of UTF-8. */
export function truncateBytes(text: string, bytesMax: number): string {
  const bytes = Buffer.from(text);
  if (bytes.length <= bytesMax) return text;
  let end = bytesMax - Buffer.byteLength(ELLIPSIS);
  // A byte that goes on with a code point is 10xxxxxx.
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return `${bytes.toString("utf8", 0, end)}${ELLIPSIS}`;
}

function sliceCodePoints(text: string, length: number): string {
  return text.slice(0, length).replace(/[\ud800-\udbff]$/, "");
}
