import type { FileHandle } from "node:fs/promises";
import { GgufError } from "./gguf-error.ts";

/** The size of one read: a header of 150,000 tokens needs a handful of reads. */
const CHUNK_BYTES = 1 << 20;

/**
 * Reads a little-endian file from start to end and never accepts a length that exceeds the file. Every
 * method throws GgufError if the file is too short.
 */
export class FileCursor {
  readonly #file: FileHandle;
  readonly #fileBytes: number;
  readonly #signal: AbortSignal;
  #chunk = Buffer.alloc(0);
  #chunkStart = 0;
  #offset = 0;

  constructor(file: FileHandle, fileBytes: number, signal: AbortSignal) {
    this.#file = file;
    this.#fileBytes = fileBytes;
    this.#signal = signal;
  }

  get offset(): number {
    return this.#chunkStart + this.#offset;
  }

  get remaining(): number {
    return this.#fileBytes - this.offset;
  }

  /**
   * Buffers the next `bytes` bytes for the synchronous readers. Returns undefined instead of a promise if they are
   * buffered already, because awaiting a promise for each of 300,000 tokens would be slow.
   */
  ensureAvailable(bytes: number): Promise<void> | undefined {
    if (this.#offset + bytes <= this.#chunk.length) return undefined;
    return this.#fill(bytes);
  }

  async #fill(bytes: number): Promise<void> {
    this.#signal.throwIfAborted();
    const start = this.offset;
    if (bytes > this.remaining)
      throw new GgufError(`the file ends too early, at byte ${this.#fileBytes}`);
    const length = Math.min(Math.max(bytes, CHUNK_BYTES), this.remaining);
    const chunk = Buffer.allocUnsafe(length);
    let filled = 0;
    while (filled < length) {
      const { bytesRead } = await this.#file.read(chunk, filled, length - filled, start + filled);
      if (bytesRead === 0) throw new GgufError("the file became shorter while Berth was reading");
      filled += bytesRead;
    }
    this.#chunk = chunk;
    this.#chunkStart = start;
    this.#offset = 0;
  }

  /** Skips `bytes` bytes without reading those that are not buffered. */
  skip(bytes: number): void {
    if (bytes > this.remaining)
      throw new GgufError(`the file ends too early, at byte ${this.#fileBytes}`);
    if (this.#offset + bytes <= this.#chunk.length) {
      this.#offset += bytes;
      return;
    }
    this.#chunkStart = this.offset + bytes;
    this.#offset = 0;
    this.#chunk = Buffer.alloc(0);
  }

  uint32(): number {
    const value = this.#chunk.readUInt32LE(this.#offset);
    this.#offset += 4;
    return value;
  }

  /** Reads a count, a length or an offset; a value above 2^53 means a damaged file. */
  uint64(): number {
    const value = Number(this.#chunk.readBigUInt64LE(this.#offset));
    this.#offset += 8;
    if (!Number.isSafeInteger(value)) throw new GgufError("a count, length or offset exceeds 2^53");
    return value;
  }

  bytes(length: number): Buffer {
    const value = this.#chunk.subarray(this.#offset, this.#offset + length);
    this.#offset += length;
    return value;
  }
}
