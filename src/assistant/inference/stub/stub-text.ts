import type { Token } from "../runner.ts";

/** Matches up to eight characters of a word with the blank before it, or any other single blank. */
const PIECE_PATTERN = /[^\S\n]?[^\s]{1,8}|\s/gu;

const WORDS =
  "a an and answer any are asked at computes engine for here in is it model no not nothing of one only question says so stub text that the there this to what when which words".split(
    " ",
  );
const WORDS_MIN = 12;
const WORDS_MAX = 48;

/** Splits a text into pieces of words, so that token counts resemble those of a real vocabulary. */
export function splitPieces(text: string): readonly string[] {
  return text.match(PIECE_PATTERN) ?? [];
}

/** Maps a piece of a text to a token. Two pieces may have the same token, because tokens are never decoded. */
export function toToken(piece: string): Token {
  return hashText(piece, 0) >>> 1;
}

/** Computes the FNV-1a hash of a text. */
export function hashText(text: string, seed: number): number {
  let value = (0x811c9dc5 ^ seed) >>> 0;
  for (let at = 0; at < text.length; at += 1)
    value = Math.imul(value ^ text.charCodeAt(at), 0x01000193) >>> 0;
  return value;
}

/** Generates an answer that depends on the prompt alone and says that it comes from the stub. */
export function generateAnswer(prompt: readonly Token[]): string {
  let state = 0x811c9dc5;
  for (const token of prompt) state = Math.imul(state ^ token, 0x01000193) >>> 0;
  const pick = (below: number) => {
    state = xorshift(state);
    return state % below;
  };
  const count = WORDS_MIN + pick(WORDS_MAX - WORDS_MIN + 1);
  const words = Array.from({ length: count }, () => WORDS[pick(WORDS.length)]);
  return `Stub answer: ${words.join(" ")}.`;
}

/** Adds up a pseudo-random vector for each word, so that texts that share words have similar vectors. */
export function embedText(text: string, length: number): Float32Array {
  const vector = new Float32Array(length);
  const words = splitPieces(text.toLowerCase());
  for (const word of words.length > 0 ? words : [""]) {
    let state = hashText(word.trim(), 1);
    for (let at = 0; at < length; at += 1) {
      state = xorshift(state);
      vector[at] = (vector[at] ?? 0) + state / 2 ** 31 - 1;
    }
  }
  const norm = Math.hypot(...vector);
  return vector.map((value) => value / norm);
}

/** Computes Marsaglia's xorshift. The state 0 is replaced, because the successor of 0 is 0. */
function xorshift(state: number): number {
  let value = state === 0 ? 0x9e3779b9 : state;
  value ^= value << 13;
  value ^= value >>> 17;
  value ^= value << 5;
  return value >>> 0;
}
