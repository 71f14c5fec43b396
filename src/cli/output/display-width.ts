/** Graphemes of two columns in a terminal: East Asian wide and fullwidth forms, and emoji. */
const wideGrapheme =
  /^(?:\p{Emoji_Presentation}|\p{Extended_Pictographic}\uFE0F|[\u1100-\u115F\u2E80-\u303E\u3041-\u33FF\u3400-\u4DBF\u4E00-\u9FFF\uA000-\uA4CF\uAC00-\uD7A3\uF900-\uFAFF\uFE30-\uFE6F\uFF00-\uFF60\uFFE0-\uFFE6]|[\u{20000}-\u{3FFFD}])/u;
const zeroWidthGrapheme = /^[\p{Mn}\p{Me}\p{Cf}]+$/u;
const segmenter = new Intl.Segmenter(undefined, { granularity: "grapheme" });
// oxlint-disable-next-line no-control-regex -- the pattern matches control sequences
const colour = /\u001B\[[0-9;]*m/g;
const ascii = /^[\u0020-\u007E]*$/;

/** Returns the number of columns of the text in a terminal; colour codes do not count. */
export function displayWidth(text: string): number {
  const plain = text.replace(colour, "");
  if (ascii.test(plain)) return plain.length;
  let width = 0;
  for (const { segment } of segmenter.segment(plain)) width += graphemeWidth(segment);
  return width;
}

/** Truncates a text without colour codes that is wider than `width` columns, and ends it with an ellipsis. */
export function truncateToWidth(text: string, width: number): string {
  if (displayWidth(text) <= width) return text;
  let kept = "";
  let used = 0;
  for (const { segment } of segmenter.segment(text)) {
    const next = graphemeWidth(segment);
    if (used + next > width - 1) break;
    kept += segment;
    used += next;
  }
  return `${kept}…`;
}

/**
 * Makes text of unknown origin safe for a table cell: line breaks become spaces, and control characters, which
 * could move the cursor or recolour the terminal, become ?.
 */
export function toSingleLine(text: string): string {
  return (
    text
      .replace(/\s*[\r\n]+\s*/g, " ")
      .replaceAll("\t", " ")
      // oxlint-disable-next-line no-control-regex -- see above
      .replace(/[\u0000-\u001F\u007F-\u009F]/g, "?")
  );
}

function graphemeWidth(grapheme: string): number {
  if (zeroWidthGrapheme.test(grapheme)) return 0;
  return wideGrapheme.test(grapheme) ? 2 : 1;
}
