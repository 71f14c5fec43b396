export interface JsonBounds {
  /** The greatest allowed nesting of objects and arrays. */
  readonly depthMax: number;
  /** The largest number of keys of all objects together. */
  readonly keysMax: number;
  /** The largest number of objects and arrays. */
  readonly containersMax: number;
}

const [QUOTE, COLON, ARRAY, ARRAY_END, OBJECT, OBJECT_END] = [0x22, 0x3a, 0x5b, 0x5d, 0x7b, 0x7d];
const BACKSLASH = 0x5c;

/**
 * Returns the first bound that a JSON text exceeds, undefined if there is none. It is called before JSON.parse, which
 * takes hundreds of milliseconds for four megabytes of brackets or of different keys, while this scan takes a few
 * milliseconds. The text need not be valid JSON; the result then says nothing else about it.
 */
export function findExceededBound(text: string, bounds: JsonBounds): keyof JsonBounds | undefined {
  let depth = 0;
  let keys = 0;
  let containers = 0;
  for (let at = 0; at < text.length; at += 1) {
    const character = text.charCodeAt(at);
    if (character === QUOTE) at = findStringEnd(text, at);
    else if (character === COLON) {
      // In valid JSON, each colon outside of strings belongs to one key.
      keys += 1;
      if (keys > bounds.keysMax) return "keysMax";
    } else if (character === ARRAY || character === OBJECT) {
      depth += 1;
      containers += 1;
      if (depth > bounds.depthMax) return "depthMax";
      if (containers > bounds.containersMax) return "containersMax";
    } else if (character === ARRAY_END || character === OBJECT_END) depth -= 1;
  }
  return undefined;
}

/**
 * Returns the index of the quotation mark that closes the string at `start`, or the length of the text if there is
 * none. It uses a fast search, because large texts consist mostly of strings.
 */
export function findStringEnd(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end !== -1; end = text.indexOf('"', end + 1)) {
    let backslashes = 0;
    while (text.charCodeAt(end - 1 - backslashes) === BACKSLASH) backslashes += 1;
    if (backslashes % 2 === 0) return end;
  }
  return text.length;
}
