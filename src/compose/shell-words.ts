/**
 * Splits a command line into words as Compose does: at blanks, except in quotes or after backslashes. No shell is
 * involved: `$NAME`, `|` and `&&` are plain text. Returns undefined if a quote is not closed.
 */
export function splitShellWords(text: string): string[] | undefined {
  const words: string[] = [];
  let word: string | undefined;
  let quote: string | undefined;
  for (let at = 0; at < text.length; at += 1) {
    const letter = text[at] ?? "";
    if (quote === "'") {
      if (letter === "'") quote = undefined;
      else word = (word ?? "") + letter;
    } else if (letter === "\\") {
      at += 1;
      const next = text[at];
      if (next === undefined) return undefined;
      // Inside double quotes, a backslash is removed only before a few characters, and kept before all others.
      const isKept = quote === '"' && !/["\\$`\n]/.test(next);
      word = (word ?? "") + (isKept ? letter : "") + (next === "\n" ? "" : next);
    } else if (quote === '"') {
      if (letter === '"') quote = undefined;
      else word = (word ?? "") + letter;
    } else if (letter === "'" || letter === '"') {
      quote = letter;
      word ??= "";
    } else if (/\s/.test(letter)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else {
      word = (word ?? "") + letter;
    }
  }
  if (quote !== undefined) return undefined;
  if (word !== undefined) words.push(word);
  return words;
}
