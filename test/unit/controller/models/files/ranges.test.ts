import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  addRange,
  type ByteRange,
  type ByteRanges,
  clipRanges,
  countBytes,
  countPrefixBytes,
  findMissingRanges,
  selectLargestRanges,
} from "../../../../../src/controller/models/files/ranges.ts";

const SIZE = 60;
const range = fc
  .tuple(fc.nat(SIZE), fc.nat(SIZE))
  .map(([a, b]): ByteRange => ({ start: Math.min(a, b), end: Math.max(a, b) }));
const manyRanges = fc.array(range, { maxLength: 12 });

/** Converts ranges to the set of their bytes. */
function bytesIn(ranges: readonly ByteRange[]): Set<number> {
  const bytes = new Set<number>();
  for (const { start, end } of ranges) for (let at = start; at < end; at += 1) bytes.add(at);
  return bytes;
}

const joined = (added: readonly ByteRange[]): ByteRanges => added.reduce<ByteRanges>(addRange, []);

describe("ranges of bytes", () => {
  it("contain all added ranges, and are sorted, disjoint and not empty", () => {
    fc.assert(
      fc.property(manyRanges, (added) => {
        const ranges = joined(added);
        expect(bytesIn(ranges)).toEqual(bytesIn(added));
        expect(countBytes(ranges)).toBe(bytesIn(added).size);
        for (const [index, { start, end }] of ranges.entries()) {
          expect(start).toBeLessThan(end);
          expect(start).toBeGreaterThan(ranges[index - 1]?.end ?? -1);
        }
      }),
    );
  });

  it("do not depend on the order in which they were added", () => {
    fc.assert(
      fc.property(manyRanges, (added) => {
        expect(joined(added.toReversed())).toEqual(joined(added));
      }),
    );
  });

  it("are disjoint from the missing ranges, and both together cover the file", () => {
    fc.assert(
      fc.property(manyRanges, fc.nat(SIZE + 10), (added, size) => {
        const ranges = joined(added);
        const missing = findMissingRanges(ranges, size);
        const there = bytesIn(clipRanges(ranges, size));
        expect(bytesIn(missing).size + there.size).toBe(size);
        for (const at of bytesIn(missing)) expect(there.has(at)).toBe(false);
      }),
    );
  });

  it("are counted by countPrefixBytes() from byte 0 to the first gap", () => {
    fc.assert(
      fc.property(manyRanges, (added) => {
        const there = bytesIn(added);
        let count = 0;
        while (there.has(count)) count += 1;
        expect(countPrefixBytes(joined(added))).toBe(count);
      }),
    );
  });

  it("are reduced by selectLargestRanges() to at most the given number of ranges, sorted by their start", () => {
    fc.assert(
      fc.property(manyRanges, fc.nat(6), (added, countMax) => {
        const ranges = joined(added);
        const kept = selectLargestRanges(ranges, countMax);
        expect(kept.length).toBe(Math.min(ranges.length, countMax));
        for (const one of kept) expect(ranges).toContainEqual(one);
        expect(kept).toEqual(kept.toSorted((a, b) => a.start - b.start));
      }),
    );
  });
});
