import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, test } from "vitest";
import { peekBody, readWholeText } from "../../../../../src/assistant/remote/egress/body-text.ts";

async function* bodyOf(...pieces: readonly (string | readonly number[])[]) {
  for (const piece of pieces)
    yield typeof piece === "string" ? Buffer.from(piece) : Buffer.from([...piece]);
}

async function* times(piece: string, count: number, onPiece = (_at: number) => {}) {
  for (let at = 0; at < count; at++) {
    onPiece(at);
    yield Buffer.from(piece);
  }
}

describe("the first character of a response body", () => {
  test.each([
    [["{}"], "{", "{}"],
    [["", " \n", "\r\n\t", " {", "}"], "{", "{}"],
    [["\uFEFF [1]"], "[", "[1]"],
    [[[0xef], [0xbb], [0xbf], "<p>"], "<", "<p>"],
    [[[0xef, 0xbb]], "\u00EF", "\uFFFD"],
    [[" ", "\n"], "", ""],
    [[], "", ""],
    [["data: é\n\n"], "d", "data: é\n\n"],
  ])("of %j is %j", async (pieces, first, text) => {
    const begun = await peekBody(bodyOf(...pieces));
    expect(begun.first).toBe(first);
    expect(await readWholeText(begun.body)).toBe(text);
  });

  // If each new piece made the reader scan the white space again, reading a body would take five seconds.
  test("is found in linear time after a long run of white space", async () => {
    const before = process.cpuUsage().user;
    expect((await peekBody(times(" ".repeat(16_384), 512))).first).toBe("");
    expect((await peekBody(times("\n", 20_000))).first).toBe("");
    expect((process.cpuUsage().user - before) / 1_000).toBeLessThan(2_000);
  });
});

test("a response body that arrives in pieces of one byte needs little more memory than its size", async () => {
  setFlagsFromString("--expose-gc");
  const collect: () => void = runInNewContext("gc");
  const pieces = 200_000;
  const heap: number[] = [];
  const text = await readWholeText(
    times("x", pieces, (at) => {
      if (at !== 0 && at !== pieces - 1) return;
      collect();
      heap.push(process.memoryUsage().heapUsed);
    }),
  );
  expect(text).toHaveLength(pieces);
  const [start = 0, end = 0] = heap;
  expect((end - start) / pieces).toBeLessThan(20);
});
