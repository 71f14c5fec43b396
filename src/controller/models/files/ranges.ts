/** The bytes from `start` (inclusive) to `end` (exclusive). */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

/** Ranges that are sorted, disjoint, not adjacent, and not empty. */
export type ByteRanges = readonly ByteRange[];

/** Returns the union of the ranges and another range. */
export function addRange(ranges: ByteRanges, added: ByteRange): ByteRanges {
  if (added.start >= added.end) return ranges;
  const before = ranges.filter(({ end }) => end < added.start);
  const after = ranges.filter(({ start }) => start > added.end);
  const touching = ranges.slice(before.length, ranges.length - after.length);
  const joined = {
    start: Math.min(added.start, touching[0]?.start ?? added.start),
    end: Math.max(added.end, touching.at(-1)?.end ?? added.end),
  };
  return [...before, joined, ...after];
}

/** Returns the ranges of the first `sizeBytes` bytes that are not in `ranges`. */
export function findMissingRanges(ranges: ByteRanges, sizeBytes: number): ByteRanges {
  const missing: ByteRange[] = [];
  let at = 0;
  for (const { start, end } of ranges) {
    if (at >= sizeBytes) break;
    if (start > at) missing.push({ start: at, end: Math.min(start, sizeBytes) });
    at = Math.max(at, end);
  }
  if (at < sizeBytes) missing.push({ start: at, end: sizeBytes });
  return missing;
}

/** Returns the parts of the ranges within the first `sizeBytes` bytes. */
export function clipRanges(ranges: ByteRanges, sizeBytes: number): ByteRanges {
  return ranges
    .filter(({ start }) => start < sizeBytes)
    .map(({ start, end }) => ({ start, end: Math.min(end, sizeBytes) }));
}

export function countBytes(ranges: ByteRanges): number {
  return ranges.reduce((sum, { start, end }) => sum + end - start, 0);
}

/** Returns the number of bytes from the start to the first gap. */
export function countPrefixBytes(ranges: ByteRanges): number {
  const first = ranges[0];
  return first?.start === 0 ? first.end : 0;
}

/**
 * Returns the `countMax` largest ranges. The journal of a download may omit smaller ranges, because their bytes are
 * then only downloaded again.
 */
export function selectLargestRanges(ranges: ByteRanges, countMax: number): ByteRanges {
  if (ranges.length <= countMax) return ranges;
  const kept = new Set(
    ranges.toSorted((a, b) => b.end - b.start - (a.end - a.start)).slice(0, countMax),
  );
  return ranges.filter((range) => kept.has(range));
}
