/** What FTS5's unicode61 takes for a word: letters, digits, marks and private use; all else parts words. */
const wordPattern = /[\p{L}\p{N}\p{M}\p{Co}]+/gu;
/** Scripts that write no spaces between words, and Hangul, which joins particles to them. */
const unspaced =
  "[\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Hangul}" +
  "\\p{Script=Thai}\\p{Script=Lao}\\p{Script=Khmer}\\p{Script=Myanmar}ー々]+";
const unspacedRuns = new RegExp(unspaced, "gu");
const hasUnspaced = new RegExp(unspaced, "u");
const camelHump = /\p{Ll}\p{Lu}|\p{Lu}\p{Lu}\p{Ll}/u;

export function splitWords(text: string): string[] {
  return text.match(wordPattern) ?? [];
}

/** Pairs of neighbouring characters of what is written without spaces; a single one stands alone. */
export function extractBigrams(text: string): string[] {
  const found: string[] = [];
  for (const [run] of text.matchAll(unspacedRuns)) {
    const characters = Array.from(run);
    if (characters.length === 1) found.push(run);
    for (let at = 0; at + 1 < characters.length; at += 1)
      found.push(`${characters[at] ?? ""}${characters[at + 1] ?? ""}`);
  }
  return found;
}

/** True of `漢字かな交じり`, and of a word that is so in part. */
export function isUnspaced(word: string): boolean {
  return hasUnspaced.test(word);
}

/** `parseHttpHeader` is three words beside being one. */
export function splitCamelCase(word: string): string[] {
  if (!camelHump.test(word)) return [];
  const parts = word
    .replaceAll(/(\p{Ll})(\p{Lu})/gu, "$1 $2")
    .replaceAll(/(\p{Lu})(\p{Lu}\p{Ll})/gu, "$1 $2")
    .split(" ");
  return parts.filter((part) => part.length > 1);
}

/** Words that the text does not show as words, for a column of their own: pairs, humps and the name's. */
export function hiddenWords(text: string, name: string): string {
  const found = new Set(splitWords(name));
  for (const word of splitWords(text)) for (const hump of splitCamelCase(word)) found.add(hump);
  return [...found, ...extractBigrams(text)].join(" ");
}
