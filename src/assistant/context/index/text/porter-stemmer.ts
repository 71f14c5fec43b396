/**
 * Porter's stemmer (1980), as FTS5 has it: words of ASCII letters, lower case, 3 to 20 characters; all
 * others come back as they are. Needed here because FTS5 lends its own to nobody.
 */
export function stem(word: string): string {
  if (word.length < 3 || word.length > 20 || !/^[a-z]+$/.test(word)) return word;
  let it = step1(word);
  it = replaceEnding(it, step2, 1);
  it = replaceEnding(it, step3, 1);
  it = step4(it);
  return step5(it);
}

const step2: readonly (readonly [string, string])[] = [
  ["ational", "ate"],
  ["tional", "tion"],
  ["enci", "ence"],
  ["anci", "ance"],
  ["izer", "ize"],
  ["logi", "log"],
  ["bli", "ble"],
  ["alli", "al"],
  ["entli", "ent"],
  ["eli", "e"],
  ["ousli", "ous"],
  ["ization", "ize"],
  ["ation", "ate"],
  ["ator", "ate"],
  ["alism", "al"],
  ["iveness", "ive"],
  ["fulness", "ful"],
  ["ousness", "ous"],
  ["aliti", "al"],
  ["iviti", "ive"],
  ["biliti", "ble"],
];
const step3: readonly (readonly [string, string])[] = [
  ["icate", "ic"],
  ["ative", ""],
  ["alize", "al"],
  ["iciti", "ic"],
  ["ical", "ic"],
  ["ful", ""],
  ["ness", ""],
];
const step4Endings =
  "ement ance ence able ible ment ant ent ism ate iti ous ive ize ion al er ic ou".split(" ");

function isConsonant(word: string, at: number): boolean {
  const letter = word[at] ?? "";
  if ("aeiou".includes(letter)) return false;
  return letter !== "y" || at === 0 || !isConsonant(word, at - 1);
}

/** How many times a vowel is followed by a consonant. */
function measure(word: string): number {
  let count = 0;
  for (let at = 1; at < word.length; at += 1)
    if (isConsonant(word, at) && !isConsonant(word, at - 1)) count += 1;
  return count;
}

function hasVowel(word: string): boolean {
  return Array.from(word).some((_, at) => !isConsonant(word, at));
}

function endsWithDoubleConsonant(word: string): boolean {
  return word.length > 1 && word.at(-1) === word.at(-2) && isConsonant(word, word.length - 1);
}

/** Consonant, vowel, consonant, and the last is not w, x or y: `hop`. */
function endsWithShortSyllable(word: string): boolean {
  const last = word.length - 1;
  return (
    word.length > 2 &&
    isConsonant(word, last) &&
    !isConsonant(word, last - 1) &&
    isConsonant(word, last - 2) &&
    !"wxy".includes(word[last] ?? "")
  );
}

function step1(word: string): string {
  let it = word;
  if (it.endsWith("sses") || it.endsWith("ies")) it = it.slice(0, -2);
  else if (it.endsWith("s") && !it.endsWith("ss")) it = it.slice(0, -1);
  if (it.endsWith("eed")) {
    if (measure(it.slice(0, -3)) > 0) it = it.slice(0, -1);
  } else {
    const ending = it.endsWith("ed") ? 2 : it.endsWith("ing") ? 3 : 0;
    if (ending > 0 && hasVowel(it.slice(0, -ending))) {
      it = it.slice(0, -ending);
      if (/(?:at|bl|iz)$/.test(it)) it += "e";
      else if (endsWithDoubleConsonant(it) && !/[lsz]$/.test(it)) it = it.slice(0, -1);
      else if (measure(it) === 1 && endsWithShortSyllable(it)) it += "e";
    }
  }
  return it.endsWith("y") && hasVowel(it.slice(0, -1)) ? `${it.slice(0, -1)}i` : it;
}

function replaceEnding(
  word: string,
  rules: readonly (readonly [string, string])[],
  measureMin: number,
): string {
  for (const [ending, instead] of rules) {
    if (!word.endsWith(ending)) continue;
    const rest = word.slice(0, -ending.length);
    return measure(rest) >= measureMin ? rest + instead : word;
  }
  return word;
}

function step4(word: string): string {
  const ending = step4Endings.find((it) => word.endsWith(it));
  if (ending === undefined) return word;
  const rest = word.slice(0, -ending.length);
  if (measure(rest) < 2 || (ending === "ion" && !/[st]$/.test(rest))) return word;
  return rest;
}

function step5(word: string): string {
  let it = word;
  if (it.endsWith("e")) {
    const rest = it.slice(0, -1);
    if (measure(rest) > 1 || (measure(rest) === 1 && !endsWithShortSyllable(rest))) it = rest;
  }
  return it.endsWith("ll") && measure(it) > 1 ? it.slice(0, -1) : it;
}
