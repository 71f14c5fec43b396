import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  addRange,
  type ByteRanges,
  countBytes,
  findMissingRanges,
} from "../../../../../src/controller/models/files/ranges.ts";
import { type Claim, Segments } from "../../../../../src/controller/models/files/segments.ts";

const MIB = 2 ** 20;

describe("segments", () => {
  it("bring every byte exactly once, whatever connections do", () => {
    const step = fc.record({
      who: fc.nat(3),
      what: fc.constantFrom("receive", "cut", "receive", "receive"),
      bytes: fc.integer({ min: 1, max: 5 * MIB }),
    });
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 60 * MIB }),
        fc.array(step, { maxLength: 200 }),
        (size, steps) => {
          const segments = new Segments(findMissingRanges([], size), 4);
          const claims = new Map<number, Claim>();
          let written: ByteRanges = [];
          let sum = 0;
          let nowMs = 0;
          const receive = (claim: Claim, bytes: number) => {
            const end = Math.min(claim.end, claim.received + bytes);
            written = addRange(written, { start: claim.received, end });
            sum += end - claim.received;
            claim.received = end;
            claim.written = end;
          };
          const next = (who: number): Claim | undefined => {
            nowMs += 400;
            const claim = claims.get(who) ?? segments.claim(nowMs);
            if (claim) claims.set(who, claim);
            return claim;
          };
          const release = (who: number, claim: Claim) => {
            segments.release(claim);
            claims.delete(who);
          };
          for (const { who, what, bytes } of steps) {
            const claim = next(who);
            if (!claim) continue;
            receive(claim, bytes);
            if (what === "cut" || claim.received >= claim.end) release(who, claim);
          }
          // Whoever is left ends it.
          for (let round = 0; !segments.isDone && round < 1000; round += 1)
            for (const who of [0, 1, 2, 3]) {
              const claim = next(who);
              if (!claim) continue;
              receive(claim, 64 * MIB);
              release(who, claim);
            }
          expect(segments.isDone).toBe(true);
          expect(written).toEqual([{ start: 0, end: size }]);
          expect(sum).toBe(size);
        },
      ),
    );
  });

  it("are given out from the front to the back, smaller towards the end", () => {
    const segments = new Segments(findMissingRanges([], 1024 * MIB), 4);
    const sizes: number[] = [];
    let at = 0;
    for (let claim = segments.claim(0); claim; claim = segments.claim(0)) {
      expect(claim.received).toBe(at);
      at = claim.end;
      sizes.push((claim.end - claim.received) / MIB);
    }
    expect(at).toBe(1024 * MIB);
    expect(sizes[0]).toBe(64);
    expect(sizes.at(-2)).toBe(4);
    expect(sizes).toEqual(sizes.toSorted((a, b) => b - a));
  });

  it("take from a slow connection half of what it has before it, and not from one that has just begun", () => {
    const segments = new Segments(findMissingRanges([], 4 * MIB), 4);
    const slow = segments.claim(0);
    expect(segments.claim(999)).toBeUndefined();
    if (slow) slow.received = 2 * MIB;
    const helper = segments.claim(1_000);
    expect([slow?.end, helper?.received, helper?.end]).toEqual([3 * MIB, 3 * MIB, 4 * MIB]);
  });

  it("know what has come and is not written", () => {
    const segments = new Segments(findMissingRanges([{ start: 0, end: MIB }], 2 * MIB), 4);
    const claim = segments.claim(0);
    if (!claim) throw new Error("a part is missing");
    claim.received += 5;
    expect(segments.bufferedBytes).toBe(5);
    segments.release(claim);
    expect(segments.bufferedBytes).toBe(0);
    expect(countBytes(findMissingRanges([{ start: 0, end: claim.written }], 2 * MIB))).toBe(MIB);
  });
});
