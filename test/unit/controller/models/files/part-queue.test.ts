import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type Part, PartQueue } from "../../../../../src/controller/models/files/part-queue.ts";
import {
  addRange,
  type ByteRanges,
  countBytes,
  findMissingRanges,
} from "../../../../../src/controller/models/files/ranges.ts";

const MIB = 2 ** 20;

describe("PartQueue", () => {
  it("assigns every byte exactly once when connections fail and divide parts", () => {
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
          const parts = new PartQueue(findMissingRanges([], size), 4);
          const active = new Map<number, Part>();
          let written: ByteRanges = [];
          let sum = 0;
          let nowMs = 0;
          const receive = (part: Part, bytes: number) => {
            const end = Math.min(part.end, part.received + bytes);
            written = addRange(written, { start: part.received, end });
            sum += end - part.received;
            part.received = end;
            part.written = end;
          };
          const next = (who: number): Part | undefined => {
            nowMs += 400;
            const part = active.get(who) ?? parts.take(nowMs);
            if (part) active.set(who, part);
            return part;
          };
          const release = (who: number, part: Part) => {
            parts.release(part);
            active.delete(who);
          };
          for (const { who, what, bytes } of steps) {
            const part = next(who);
            if (!part) continue;
            receive(part, bytes);
            if (what === "cut" || part.received >= part.end) release(who, part);
          }
          // All four connections together receive the parts that are left.
          for (let round = 0; !parts.isDone && round < 1000; round += 1)
            for (const who of [0, 1, 2, 3]) {
              const part = next(who);
              if (!part) continue;
              receive(part, 64 * MIB);
              release(who, part);
            }
          expect(parts.isDone).toBe(true);
          expect(written).toEqual([{ start: 0, end: size }]);
          expect(sum).toBe(size);
        },
      ),
    );
  });

  it("assigns parts from the start of the file to its end, and smaller parts towards the end", () => {
    const parts = new PartQueue(findMissingRanges([], 1024 * MIB), 4);
    const sizes: number[] = [];
    let at = 0;
    for (let part = parts.take(0); part; part = parts.take(0)) {
      expect(part.received).toBe(at);
      at = part.end;
      sizes.push((part.end - part.received) / MIB);
    }
    expect(at).toBe(1024 * MIB);
    expect(sizes[0]).toBe(64);
    expect(sizes.at(-2)).toBe(4);
    expect(sizes).toEqual(sizes.toSorted((a, b) => b - a));
  });

  it("divides the rest of a slow part, but does not divide a new part", () => {
    const parts = new PartQueue(findMissingRanges([], 4 * MIB), 4);
    const slow = parts.take(0);
    expect(parts.take(999)).toBeUndefined();
    if (slow) slow.received = 2 * MIB;
    const helper = parts.take(1_000);
    expect([slow?.end, helper?.received, helper?.end]).toEqual([3 * MIB, 3 * MIB, 4 * MIB]);
  });

  it("counts the bytes that are received but not yet written", () => {
    const parts = new PartQueue(findMissingRanges([{ start: 0, end: MIB }], 2 * MIB), 4);
    const part = parts.take(0);
    if (!part) throw new Error("a part is missing");
    part.received += 5;
    expect(parts.bufferedBytes).toBe(5);
    parts.release(part);
    expect(parts.bufferedBytes).toBe(0);
    expect(countBytes(findMissingRanges([{ start: 0, end: part.written }], 2 * MIB))).toBe(MIB);
  });
});
