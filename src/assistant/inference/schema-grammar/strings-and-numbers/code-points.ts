import type { CodePointRange } from "../expression.ts";

/** A set of code points as sorted ranges that are neither adjacent nor overlapping. */
export type CodePoints = readonly CodePointRange[];

/** All code points of JSON texts. No set here contains surrogates, which have no UTF-8 form. */
export const everyCodePoint: CodePoints = [
  [0, 0xd7ff],
  [0xe000, 0x10ffff],
];

/** The code points that need two UTF-16 units. */
export const supplementaryCodePoints: CodePoints = [[0x10000, 0x10ffff]];

export function toSingleCodePoint(value: number): CodePoints {
  return intersectCodePoints([[value, value]], everyCodePoint);
}

/** Returns the set of the characters in `text`. */
export function toCodePoints(text: string): CodePoints {
  return normalizeCodePoints(Array.from(text, (character) => singleRange(character)));
}

/** Sorts ranges, joins overlapping and adjacent ones, and removes surrogates. */
export function normalizeCodePoints(ranges: readonly CodePointRange[]): CodePoints {
  const sorted = ranges.toSorted((left, right) => left[0] - right[0]);
  const joined: [number, number][] = [];
  for (const [from, to] of sorted) {
    const last = joined.at(-1);
    if (last !== undefined && from <= last[1] + 1) last[1] = Math.max(last[1], to);
    else joined.push([from, to]);
  }
  return intersectCodePoints(joined, everyCodePoint);
}

export function intersectCodePoints(left: CodePoints, right: CodePoints): CodePoints {
  const both: CodePointRange[] = [];
  let at = 0;
  let other = 0;
  while (at < left.length && other < right.length) {
    const [leftFrom = 0, leftTo = 0] = left[at] ?? [];
    const [rightFrom = 0, rightTo = 0] = right[other] ?? [];
    const from = Math.max(leftFrom, rightFrom);
    const to = Math.min(leftTo, rightTo);
    if (from <= to) both.push([from, to]);
    if (leftTo < rightTo) at += 1;
    else other += 1;
  }
  return both;
}

export function complementCodePoints(points: CodePoints): CodePoints {
  const gaps: CodePointRange[] = [];
  let from = 0;
  for (const [start, end] of points) {
    if (start > from) gaps.push([from, start - 1]);
    from = end + 1;
  }
  if (from <= 0x10ffff) gaps.push([from, 0x10ffff]);
  return intersectCodePoints(gaps, everyCodePoint);
}

export function subtractCodePoints(left: CodePoints, right: CodePoints): CodePoints {
  return intersectCodePoints(left, complementCodePoints(right));
}

function singleRange(character: string): CodePointRange {
  const value = character.codePointAt(0) ?? 0;
  return [value, value];
}
