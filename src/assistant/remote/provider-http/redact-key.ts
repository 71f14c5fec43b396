/**
 * The length of the shortest part of a key that is removed from a text. Shorter parts occur in ordinary text, and do
 * not help to guess the rest of the key.
 */
const PART_CHARACTERS = 8;
const MARK = "[key]";

/**
 * Removes the key from a text, because providers quote keys in their error messages. No part of the key with 8 or more
 * characters remains, whether plain or in the encodings of URLs, Base64 and JSON.
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
  return applyMask(text, hidden);
}

function listEncodings(key: string): readonly string[] {
  const bytes = Buffer.from(key);
  return [
    key,
    encodeURIComponent(key),
    JSON.stringify(key).slice(1, -1),
    bytes.toString("base64").replace(/=+$/, ""),
    bytes.toString("base64url"),
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
