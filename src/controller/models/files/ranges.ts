/** Bytes from `start` up to, and without, `end`. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

/** In order, apart from each other, none of them empty. */
export type ByteRanges = readonly ByteRange[];

/** With `added` in it; what touches becomes one. */
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

/** What is not in `ranges` of the first `sizeBytes` bytes. */
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

/** What of `ranges` lies in the first `sizeBytes` bytes. */
export function clipRanges(ranges: ByteRanges, sizeBytes: number): ByteRanges {
  return ranges
    .filter(({ start }) => start < sizeBytes)
    .map(({ start, end }) => ({ start, end: Math.min(end, sizeBytes) }));
}

export function countBytes(ranges: ByteRanges): number {
  return ranges.reduce((sum, { start, end }) => sum + end - start, 0);
}

/** How many bytes are there from the beginning on without a gap. */
export function countPrefixBytes(ranges: ByteRanges): number {
  const first = ranges[0];
  return first?.start === 0 ? first.end : 0;
}

/** The largest of them that are no more than `countMax`: to say less than is there is always true. */
export function selectLargestRanges(ranges: ByteRanges, countMax: number): ByteRanges {
  if (ranges.length <= countMax) return ranges;
  const kept = new Set(
    ranges.toSorted((a, b) => b.end - b.start - (a.end - a.start)).slice(0, countMax),
  );
  return ranges.filter((range) => kept.has(range));
}
