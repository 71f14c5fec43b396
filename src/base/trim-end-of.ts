/**
 * Removes a character from the end of a text, however often it is there. A regular expression such as `/x+$/` takes
 * quadratic time for a text with many of these characters before another one.
 */
export function trimEndOf(text: string, character: string): string {
  let end = text.length;
  while (end > 0 && text[end - 1] === character) end -= 1;
  return text.slice(0, end);
}
