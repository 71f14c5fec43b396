/**
 * The length of the shortest part of a key that is removed from a text. Shorter parts occur in ordinary text, and do
 * not help to guess the rest of the key.
 */
const PART_CHARACTERS = 8;
const MARK = "[key]";
/**
 * The smallest number of the key's first and last characters that are removed from both sides of a filler, as in
 * `sk-a****wxyz`. Fewer characters of a key occur in descriptions of keys (`sk-...`).
 */
const SHOWN_CHARACTERS = 4;
/** The largest number of characters that are compared next to a filler. Longer parts are removed anyway. */
const COMPARED_CHARACTERS = 32;
/**
 * Matches the text with which providers replace the middle of a key: a sign such as `*`, a repeated sign other than `/`
 * (which occurs twice in URLs), three or more `x`, or a word in brackets.
 */
const filler = /(?:[*#•●∙·…]|([^\p{L}\p{N}\s/])\1+|x{3,}|\[\w*\]|<\w*>)+/giu;

/**
 * Removes the key from a text, because providers quote keys in their error messages. No part of the key with 8 or more
 * characters remains, whether plain or in the encodings of URLs, Base64 and JSON. Neither do 4 or more characters that
 * remain of a key whose middle was replaced, nor 4 or more last characters of the key as a word of their own.
 */
export function redactKey(text: string, key: string | undefined): string {
  if (key === undefined || key === "") return text;
  const forms = listEncodings(key);
  const parts = new Set(forms.flatMap(listParts));
  const hidden = new Uint8Array(text.length);
  for (const length of new Set([...parts].map((part) => part.length))) {
    for (let at = 0; at + length <= text.length; at++)
      if (parts.has(text.slice(at, at + length))) hidden.fill(1, at, at + length);
  }
  for (const [from, to] of findShownEnds(text, key)) hidden.fill(1, from, to);
  return applyMask(text, hidden);
}

/** Yields the ranges of a text that show the beginning or the end of a key. */
function* findShownEnds(text: string, key: string): Generator<readonly [from: number, to: number]> {
  for (const { 0: found, index } of text.matchAll(filler)) {
    // A blank may separate the filler from the key.
    const start = text[index - 1] === " " ? index - 1 : index;
    const filled = index + found.length;
    const end = text[filled] === " " ? filled + 1 : filled;
    const longest = Math.min(key.length, COMPARED_CHARACTERS);
    const before = countMatching(longest, (length) => text.endsWith(key.slice(0, length), start));
    const after = countMatching(longest, (length) => text.startsWith(key.slice(-length), end));
    if (before + after < SHOWN_CHARACTERS) continue;
    yield [before > 0 ? start - before : index, after > 0 ? end + after : filled];
  }
  for (const { 0: word, index } of text.matchAll(/[\w-]+/g))
    if (word.length >= SHOWN_CHARACTERS && key.endsWith(word)) yield [index, index + word.length];
}

/** Returns the largest number from 1 to `max` for which `matches` is true; 0 if there is none. */
function countMatching(max: number, matches: (length: number) => boolean): number {
  let length = max;
  while (length > 0 && !matches(length)) length -= 1;
  return length;
}

function listEncodings(key: string): readonly string[] {
  const bytes = Buffer.from(key);
  return [
    key,
    encodeURIComponent(key),
    JSON.stringify(key).slice(1, -1),
    ...(["base64", "base64url"] as const).flatMap((encoding) =>
      // In Base64, text before the key, such as "Bearer ", shifts the bits of the key, so the key has three forms. The
      // first characters of a shifted form depend on the text before the key, so they are left out.
      [0, 1, 2].map((shift) =>
        Buffer.concat([Buffer.alloc(shift), bytes])
          .toString(encoding)
          .replace(/=+$/, "")
          .slice(shift === 0 ? 0 : shift + 1),
      ),
    ),
  ];
}

/** Returns all substrings of `form` that have PART_CHARACTERS characters, or `form` itself if it is shorter. */
function listParts(form: string): readonly string[] {
  const length = Math.min(PART_CHARACTERS, form.length);
  return Array.from({ length: form.length - length + 1 }, (_, at) => form.slice(at, at + length));
}

function applyMask(text: string, hidden: Uint8Array): string {
  let result = "";
  for (let at = 0; at < text.length; at++) {
    if (hidden[at] === 0) result += text[at];
    else if (hidden[at - 1] !== 1) result += MARK;
  }
  return result;
}
