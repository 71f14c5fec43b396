import type { CodePointRange } from "../expression.ts";
import {
  type CodePoints,
  complementCodePoints,
  normalizeCodePoints,
  toCodePoints,
} from "./code-points.ts";

export const digits: CodePoints = [[0x30, 0x39]];

/** The characters of `\w` without the flag `i`. */
export const wordCharacters: CodePoints = normalizeCodePoints([
  [0x30, 0x39],
  [0x41, 0x5a],
  [0x5f, 0x5f],
  [0x61, 0x7a],
]);

/** The characters of `\s`: ECMA-262's WhiteSpace and LineTerminator. */
export const whiteSpace: CodePoints = normalizeCodePoints([
  [0x09, 0x0d],
  [0x20, 0x20],
  [0xa0, 0xa0],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x2028, 0x2029],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x3000, 0x3000],
  [0xfeff, 0xfeff],
]);

/** The characters that `.` matches without the flag `s`. */
export const nonLineTerminators: CodePoints = complementCodePoints(
  toCodePoints("\n\r\u2028\u2029"),
);

const propertyCache = new Map<string, CodePoints>();

/**
 * Returns the code points of `\p{expression}` in this JavaScript engine's version of Unicode, because the
 * same engine validates the text later. Throws SyntaxError for an unknown property.
 */
export function getPropertyCodePoints(expression: string): CodePoints {
  const cached = propertyCache.get(expression);
  if (cached !== undefined) return cached;
  const runs = new RegExp(`\\p{${expression}}+`, "gu");
  const ranges: CodePointRange[] = [];
  for (const { from, text, to } of getTextBlocks()) {
    const width = from > 0xffff ? 2 : 1;
    for (const match of text.matchAll(runs)) {
      const start = from + match.index / width;
      const end = match.index + match[0].length;
      ranges.push([start, end === text.length ? to : from + end / width - 1]);
    }
  }
  const points = normalizeCodePoints(ranges);
  propertyCache.set(expression, points);
  return points;
}

/**
 * Returns texts whose characters represent all code points except surrogates. Each character represents itself. In a
 * plane without assigned characters, the first code point also represents all others but the last two, because all of
 * these have the same properties. All characters of one text have the same number of UTF-16 units.
 */
function getTextBlocks(): readonly TextBlock[] {
  if (blocks.length > 0) return blocks;
  addBlock(0, 0x7fff, 0x7fff);
  addBlock(0x8000, 0xd7ff, 0xd7ff);
  addBlock(0xe000, 0xffff, 0xffff);
  for (const plane of [1, 2, 3, 14]) {
    addBlock(plane << 16, (plane << 16) | 0x7fff, (plane << 16) | 0x7fff);
    addBlock((plane << 16) | 0x8000, (plane << 16) | 0xffff, (plane << 16) | 0xffff);
  }
  for (const plane of [4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16]) {
    addBlock(plane << 16, plane << 16, (plane << 16) | 0xfffd);
    addBlock((plane << 16) | 0xfffe, (plane << 16) | 0xffff, (plane << 16) | 0xffff);
  }
  return blocks;
}

interface TextBlock {
  readonly from: number;
  readonly text: string;
  /**
   * The last code point of the block. The last character of `text` represents itself and all later code points up to
   * `to`.
   */
  readonly to: number;
}

const blocks: TextBlock[] = [];

function addBlock(from: number, last: number, to: number): void {
  const points = Array.from({ length: last - from + 1 }, (_, index) => from + index);
  blocks.push({ from, text: String.fromCodePoint(...points), to });
}
