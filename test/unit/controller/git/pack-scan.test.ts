import { deflateSync } from "node:zlib";
import { expect, test } from "vitest";
import { isPackWithinLimits } from "../../../../src/controller/git/pack-scan.ts";

const LIMITS = { objectBytesMax: 100_000, totalBytesMax: 250_000 };

/** Encodes type and size as a pack does: four bits of the size in the first byte, then seven in each further byte. */
function header(type: number, size: number): Buffer {
  const bytes = [(type << 4) | (size & 15)];
  for (let rest = Math.floor(size / 16); rest > 0; rest = Math.floor(rest / 128)) {
    bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) | 0x80;
    bytes.push(rest & 0x7f);
  }
  return Buffer.from(bytes);
}

function varint(size: number): Buffer {
  const bytes: number[] = [];
  for (let rest = size; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return Buffer.from([...bytes, rest]);
    bytes.push((rest & 0x7f) | 0x80);
  }
}

const blob = (bytes: number, declared = bytes) =>
  Buffer.concat([header(3, declared), deflateSync(Buffer.alloc(bytes))]);
/** Builds a delta against the object with the given hash. Only the size of the delta's result matters in the tests. */
const delta = (result: number) => {
  const data = Buffer.concat([varint(10), varint(result), Buffer.from([0x90, 10])]);
  return Buffer.concat([header(7, data.length), Buffer.alloc(20, 1), deflateSync(data)]);
};
const offsetDelta = (result: number) => {
  const data = Buffer.concat([varint(10), varint(result)]);
  return Buffer.concat([header(6, data.length), Buffer.from([0x81, 0x05]), deflateSync(data)]);
};

function pack(...objects: Buffer[]): Buffer {
  const head = Buffer.from("PACK\0\0\0\x02\0\0\0\0", "latin1");
  head.writeUInt32BE(objects.length, 8);
  return Buffer.concat([head, ...objects, Buffer.alloc(20)]);
}

test.each([
  ["nothing", pack()],
  ["small objects", pack(blob(10), blob(100_000), blob(50_000))],
  ["small deltas", pack(blob(10), delta(100), offsetDelta(5000), blob(10))],
  ["what is no pack", Buffer.from("hello, I am no pack, and long enough to be looked at")],
  ["a damaged pack", pack(Buffer.from([0x33, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]))],
])("a pack of %s is within the limits", (_, bytes) => {
  expect(isPackWithinLimits(bytes, LIMITS)).toBe(true);
});

test.each([
  ["one large object", pack(blob(10), blob(100_001))],
  ["one that says that it is small", pack(blob(10), blob(5_000_000, 10))],
  ["many that are large together", pack(blob(90_000), blob(90_000), blob(90_000))],
  ["a delta that makes much", pack(blob(10), delta(100_001))],
  [
    "an offset delta with a large result, based on another delta",
    pack(blob(10), offsetDelta(10), offsetDelta(2 ** 40)),
  ],
])("a pack of %s exceeds the limits", (_, bytes) => {
  expect(isPackWithinLimits(bytes, LIMITS)).toBe(false);
});
