import { describe, expect, test } from "vitest";
import { mergeConcurrently } from "../../../../../src/assistant/inference/service/merge-concurrently.ts";

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

async function* numbers(from: number, count: number) {
  for (let index = 0; index < count; index++) yield from + index;
}

describe("merging sources concurrently", () => {
  test("yields all items, and keeps the order of each source", async () => {
    const got = await collect(
      mergeConcurrently(
        3,
        2,
        (index) => numbers(index * 10, 3),
        () => {},
      ),
    );
    expect(got.toSorted((a, b) => a - b)).toEqual([0, 1, 2, 10, 11, 12, 20, 21, 22]);
    for (const tens of [0, 10, 20])
      expect(got.filter((n) => n >= tens && n < tens + 10)).toEqual([tens, tens + 1, tens + 2]);
  });

  test("runs at most `concurrency` sources at a time", async () => {
    let running = 0;
    let most = 0;
    await collect(
      mergeConcurrently(
        9,
        3,
        async function* () {
          most = Math.max(most, ++running);
          await Promise.resolve();
          yield 1;
          running--;
        },
        () => {},
      ),
    );
    expect(most).toBe(3);
  });

  test("does not let a source that is always ready starve the others", async () => {
    const got: number[] = [];
    for await (const item of mergeConcurrently(
      2,
      2,
      (index) => numbers(index * 1000, 1000),
      () => {},
    )) {
      got.push(item);
      if (got.length === 20) break;
    }
    expect(got.some((n) => n < 1000)).toBe(true);
    expect(got.some((n) => n >= 1000)).toBe(true);
  });

  test("ends all sources when the caller stops, even those with a pending pull", async () => {
    const leaving = new AbortController();
    const ended: number[] = [];
    const source = async function* (index: number) {
      try {
        if (index === 0) yield index;
        else
          await new Promise((_, reject) =>
            leaving.signal.addEventListener("abort", () => reject(leaving.signal.reason)),
          );
      } finally {
        ended.push(index);
      }
    };
    for await (const item of mergeConcurrently(3, 3, source, () => leaving.abort())) {
      expect(item).toBe(0);
      break;
    }
    expect(new Set(ended)).toEqual(new Set([0, 1, 2]));
  });

  test("fails when one source fails", async () => {
    const ended: number[] = [];
    const source = async function* (index: number) {
      try {
        yield index;
        if (index === 1) throw new Error("broken");
        yield index;
        yield index;
      } finally {
        ended.push(index);
      }
    };
    await expect(collect(mergeConcurrently(3, 3, source, () => {}))).rejects.toThrow("broken");
    expect(new Set(ended)).toEqual(new Set([0, 1, 2]));
  });
});
