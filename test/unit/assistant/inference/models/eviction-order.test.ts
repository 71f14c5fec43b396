import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  chooseEviction,
  type MemoryNeed,
  type Occupant,
} from "../../../../../src/assistant/inference/models/eviction-order.ts";

type Named = Occupant & { readonly name: string };

function model(name: string, memoryBytes: number, more: Partial<Occupant> = {}): Named {
  const usual = { isPinned: false, isIdle: true, isUnloading: false, lastUsed: 0 };
  return { name, memoryBytes, ...usual, ...more };
}
const pinned = { isPinned: true };
const busy = { isIdle: false };

/** Chooses the next model to evict, with a budget of ten bytes. */
function next(others: readonly Named[], need: MemoryNeed, isLate = false): string {
  const freeBytes = 10 - others.reduce((total, { memoryBytes }) => total + memoryBytes, 0);
  const answer = chooseEviction(others, need, { freeBytes, isLate });
  return typeof answer === "string" ? answer : answer.name;
}

describe("unpinned models, when a new model needs memory", () => {
  const large = { wanted: 10, least: 1 };

  test("are evicted, least recently used first, until the memory for the wanted context and sequences is free", () => {
    expect(next([model("a", 1, { lastUsed: 2 }), model("b", 1, { lastUsed: 1 })], large)).toBe("b");
    expect(next([model("a", 1)], { wanted: 9, least: 1 })).toBe("none");
    expect(next([], large)).toBe("none");
  });

  test("delay the new model while they are in use, but not forever", () => {
    expect(next([model("a", 1, busy)], large)).toBe("wait");
    expect(next([model("a", 1, busy)], large, true)).toBe("none");
    expect(next([model("a", 8, busy)], { wanted: 5, least: 5 }, true)).toBe("none");
  });

  test("are evicted before pinned models, even if the unpinned ones were used later", () => {
    expect(next([model("p", 1, pinned), model("a", 1, { lastUsed: 9 })], large)).toBe("a");
  });
});

describe("pinned models, when a new model needs memory", () => {
  test("are kept if the free memory is enough for the smallest context of the new model", () => {
    expect(next([model("p", 8, pinned)], { wanted: 10, least: 2 })).toBe("none");
    expect(next([model("p", 8, { ...pinned, ...busy })], { wanted: 10, least: 2 })).toBe("none");
  });

  test("are evicted, least recently used first, if the new model cannot fit otherwise", () => {
    const others = [
      model("p", 4, { ...pinned, lastUsed: 2 }),
      model("q", 4, { ...pinned, lastUsed: 1 }),
    ];
    expect(next(others, { wanted: 6, least: 6 })).toBe("q");
    expect(next([model("p", 4, pinned)], { wanted: 10, least: 6 })).toBe("none");
  });

  test("are kept if evicting all of them would not be enough", () => {
    const others = [model("p", 4, pinned), model("q", 5, { ...pinned, ...busy })];
    expect(next(others, { wanted: 8, least: 8 })).toBe("wait");
    expect(next(others, { wanted: 8, least: 8 }, true)).toBe("none");
  });

  test("are kept while unpinned models in use would be enough, and evicted if waiting takes too long", () => {
    const others = [model("p", 4, pinned), model("a", 5, busy)];
    const need = { wanted: 5, least: 5 };
    expect(next(others, need)).toBe("wait");
    expect(next(others, need, true)).toBe("p");
  });

  test("are evicted at once if waiting for the unpinned models would not be enough", () => {
    expect(next([model("p", 8, pinned), model("a", 1, busy)], { wanted: 9, least: 5 })).toBe("p");
  });

  test("make the new model wait if they are already being unloaded", () => {
    const leaving = { ...pinned, ...busy, isUnloading: true };
    expect(next([model("p", 8, leaving), model("q", 2, pinned)], { wanted: 5, least: 5 })).toBe(
      "wait",
    );
  });
});

test("in any situation, a pinned model is evicted only if a new model cannot fit otherwise, and fits then", () => {
  const occupants = fc.array(
    fc
      .record({
        memoryBytes: fc.integer({ min: 1, max: 10 }),
        isPinned: fc.boolean(),
        state: fc.constantFrom("idle", "busy", "leaving"),
        lastUsed: fc.integer({ min: 0, max: 5 }),
      })
      .map(({ state, ...rest }) => ({
        ...rest,
        isIdle: state === "idle",
        isUnloading: state === "leaving",
      })),
    { maxLength: 5 },
  );
  fc.assert(
    fc.property(
      occupants,
      fc.integer({ min: 0, max: 20 }),
      fc.integer({ min: 1, max: 20 }),
      fc.integer({ min: 0, max: 20 }),
      fc.boolean(),
      (others, freeBytes, least, more, isLate) => {
        const need = { wanted: least + more, least };
        const answer = chooseEviction(others, need, { freeBytes, isLate });
        if (isLate) expect(answer).not.toBe("wait");
        if (typeof answer === "string") return;
        expect(answer.isIdle).toBe(true);
        expect(freeBytes).toBeLessThan(need.wanted);
        if (!answer.isPinned) return;
        expect(freeBytes).toBeLessThan(need.least);
        const leavable = others.filter((one) => one.isIdle);
        expect(leavable.every((one) => one.isPinned)).toBe(true);
        const all = leavable.reduce((total, one) => total + one.memoryBytes, freeBytes);
        expect(all).toBeGreaterThanOrEqual(need.least);
      },
    ),
  );
});
