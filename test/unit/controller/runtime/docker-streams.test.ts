import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { demultiplex } from "../../../../src/controller/runtime/docker-demux.ts";
import { parseJsonLines } from "../../../../src/controller/runtime/docker-json-lines.ts";
import { assembleLogLines } from "../../../../src/controller/runtime/docker-logs.ts";
import type { LogLine } from "../../../../src/controller/runtime/port.ts";

const TIME = "2026-11-20T19:46:34.123456789Z";

function frame(stream: 1 | 2, text: string | Buffer): Buffer {
  const payload = Buffer.from(text);
  const header = Buffer.alloc(8);
  header[0] = stream;
  header.writeUInt32BE(payload.length, 4);
  return Buffer.concat([header, payload]);
}

async function* chunksOf(bytes: Buffer, sizes: readonly number[]): AsyncGenerator<Buffer> {
  let offset = 0;
  for (let turn = 0; offset < bytes.length; turn += 1) {
    const size = sizes[turn % sizes.length] ?? 1;
    yield bytes.subarray(offset, offset + size);
    offset += size;
  }
}

async function read(bytes: Buffer, sizes: readonly number[] = [65_536]): Promise<LogLine[]> {
  const lines: LogLine[] = [];
  for await (const line of assembleLogLines(demultiplex(chunksOf(bytes, sizes)))) lines.push(line);
  return lines;
}

describe("a multiplexed log of the engine", () => {
  it("has the same lines wherever chunks are split", async () => {
    const line = fc.record({
      stream: fc.constantFrom(1 as const, 2 as const),
      text: fc.string({ unit: "binary", maxLength: 60 }).map((text) => text.replace(/[\n\r]/g, "")),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(line, { maxLength: 20 }),
        fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 8 }),
        async (wanted, sizes) => {
          const bytes = Buffer.concat(
            wanted.map((item) => frame(item.stream, `${TIME} ${item.text}\n`)),
          );
          expect(await read(bytes, sizes)).toEqual(
            wanted.map((item) => ({
              time: TIME,
              stream: item.stream === 1 ? "stdout" : "stderr",
              message: Buffer.from(item.text).toString(),
            })),
          );
        },
      ),
    );
  });

  it("joins the parts of a line that the engine has split, although each part has a timestamp of its own", async () => {
    const bytes = Buffer.concat([
      frame(1, `${TIME} one `),
      frame(2, `${TIME} other\n`),
      frame(1, "2026-11-20T19:46:35.000000000Z two\n"),
    ]);
    expect(await read(bytes)).toEqual([
      { time: TIME, stream: "stderr", message: "other" },
      { time: TIME, stream: "stdout", message: "one two" },
    ]);
  });

  it("splits a line of more than 64 KiB between characters", async () => {
    const text = "€".repeat(100_000);
    const pieces = (await read(frame(1, `${TIME} ${text}\n`))).map((line) => line.message);
    expect(pieces.join("")).toBe(text);
    expect(pieces).toHaveLength(5);
    for (const piece of pieces) expect(Buffer.byteLength(piece)).toBeLessThanOrEqual(65_536);
  });

  it("forwards a frame with a huge length as its data arrives", async () => {
    const header = Buffer.alloc(8);
    header[0] = 1;
    header.writeUInt32BE(0xffffffff, 4);
    const lines = await read(Buffer.concat([header, Buffer.from(`${TIME} a\nb\n`)]));
    expect(lines.map((line) => line.message)).toEqual(["a", "b"]);
  });

  it("throws for a stream that is not multiplexed", async () => {
    await expect(read(Buffer.from("plain text of a terminal\n"))).rejects.toMatchObject({
      code: "engine_error",
    });
  });

  it("ends without an error if the stream is cut off in a header", async () => {
    expect(await read(frame(1, `${TIME} whole\n`).subarray(0, -3))).toEqual([
      { time: TIME, stream: "stdout", message: "who" },
    ]);
    expect(await read(Buffer.from([1, 0, 0]))).toEqual([]);
  });
});

describe("a stream of JSON lines", () => {
  it("yields objects, and skips lines that are not objects or are too long", async () => {
    const long = `{"long":"${"x".repeat(3_000_000)}"}`;
    const bytes = Buffer.from(`{"a":1}\r\n\nnull\n[1]\nnot json\n${long}\n{"b":2}`);
    const found: unknown[] = [];
    for await (const value of parseJsonLines(chunksOf(bytes, [7, 100_000]))) found.push(value);
    expect(found).toEqual([{ a: 1 }, { b: 2 }]);
  });
});
