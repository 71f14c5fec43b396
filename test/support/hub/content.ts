import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";

/** The bytes of one file, in memory or on disk, with their digests. */
export interface Content {
  readonly sizeBytes: number;
  readonly sha256: string;
  /** The SHA-1 that git computes for these bytes as a blob. */
  readonly gitBlob: string;
  /** Reads the bytes from `start` (inclusive) to `end` (exclusive). */
  read(start: number, end: number): AsyncIterable<Buffer>;
}

/**
 * The content of a file: its bytes, or the path of a file on the disk, which is streamed and never read completely into
 * memory.
 */
export type GivenContent = Uint8Array | string;

export async function loadContent(given: GivenContent): Promise<Content> {
  return typeof given === "string" ? await fileContent(given) : bufferContent(Buffer.from(given));
}

export function bufferContent(bytes: Buffer): Content {
  return {
    sizeBytes: bytes.length,
    sha256: createHash("sha256").update(bytes).digest("hex"),
    gitBlob: createHash("sha1").update(`blob ${bytes.length}\0`).update(bytes).digest("hex"),
    async *read(start, end) {
      for (let at = start; at < end; at += CHUNK_BYTES)
        yield bytes.subarray(at, Math.min(end, at + CHUNK_BYTES));
    },
  };
}

/**
 * The size of one write to a socket. A fault may cut the connection, or change a byte, at any position within a write.
 */
const CHUNK_BYTES = 64 * 1024;

async function fileContent(path: string): Promise<Content> {
  const { size } = await stat(path);
  const sha256 = createHash("sha256");
  const sha1 = createHash("sha1").update(`blob ${size}\0`);
  for await (const chunk of createReadStream(path)) {
    sha256.update(chunk);
    sha1.update(chunk);
  }
  return {
    sizeBytes: size,
    sha256: sha256.digest("hex"),
    gitBlob: sha1.digest("hex"),
    async *read(start, end) {
      if (start >= end) return;
      const options = { start, end: end - 1, highWaterMark: 4 * CHUNK_BYTES };
      for await (const chunk of createReadStream(path, options)) yield chunk;
    },
  };
}
