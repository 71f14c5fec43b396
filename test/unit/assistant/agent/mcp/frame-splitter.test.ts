import fc from "fast-check";
import { expect, it } from "vitest";
import {
  FrameSplitter,
  FrameTooLargeError,
} from "../../../../../src/assistant/agent/mcp/frame-splitter.ts";

/** Returns the lines of a splitter that receives `bytes` in chunks, which begin at the offsets `cuts`. */
function split(bytes: Buffer, cuts: readonly number[], bytesMax = 1_000_000): string[] {
  const splitter = new FrameSplitter(bytesMax);
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length];
  places.sort((a, b) => a - b);
  return places.flatMap((end, index) =>
    Array.from(splitter.split(bytes.subarray(places[index - 1] ?? 0, end))),
  );
}

it("the frame splitter returns the same lines for any chunking of the bytes", () => {
  // The characters have one to four bytes in UTF-8. A wrong splitter could treat some of them as line feeds: U+010A
  // ends with the byte 0A in UTF-16, and U+2028 is a line separator.
  const character = fc.constantFrom(
    "a",
    "ä",
    "☃",
    "😀",
    "\u0000",
    "\r",
    "\u010A",
    "\u2028",
    "\uFEFF",
  );
  const line = fc.array(character, { maxLength: 12 }).map((text) => `x${text.join("")}x`);
  fc.assert(
    fc.property(
      fc.array(line, { maxLength: 8 }),
      fc.array(fc.nat(), { maxLength: 8 }),
      (lines, cuts) => {
        const bytes = Buffer.from(lines.map((one) => `${one}\n`).join(""));
        expect(split(bytes, cuts)).toEqual(lines);
      },
    ),
  );
});

it("the frame splitter skips empty lines, a carriage return before the line end, and an unfinished line", () => {
  expect(split(Buffer.from("\n\r\n a\r\n\n{}\nrest"), [])).toEqual([" a", "{}"]);
});

it("the frame splitter accepts a line of exactly the limit and rejects longer ones, for any chunking", () => {
  const cuts = fc.array(fc.nat());
  fc.assert(
    fc.property(cuts, (places) => {
      expect(split(Buffer.from(`${"x".repeat(50)}\nyy\n`), places, 50)).toHaveLength(2);
      expect(() => split(Buffer.from(`y\n${"x".repeat(51)}`), places, 50)).toThrow(
        FrameTooLargeError,
      );
    }),
  );
});

it("the frame splitter returns the lines before a line that is too long", () => {
  const taken: string[] = [];
  const splitter = new FrameSplitter(3);
  expect(() => {
    for (const line of splitter.split(Buffer.from("a\nb\ncccc\n"))) taken.push(line);
  }).toThrow(FrameTooLargeError);
  expect(taken).toEqual(["a", "b"]);
});

it("the frame splitter rejects bytes that are not UTF-8", () => {
  fc.assert(
    fc.property(fc.constantFrom([0xff], [0xc3], [0xed, 0xa0, 0x80], [0xc0, 0x80]), (bytes) => {
      expect(() => split(Buffer.from([0x22, ...bytes, 0x22, 0x0a]), [])).toThrow(TypeError);
    }),
  );
});
