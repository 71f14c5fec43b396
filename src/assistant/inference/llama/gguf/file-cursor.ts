import type { FileHandle } from "node:fs/promises";
import { GgufError } from "./gguf-error.ts";

/** Read from the disk at a time: a header of 150,000 words takes a handful of reads. */
const CHUNK_BYTES = 1 << 20;

/**
 * Reads a file from front to back, little-endian, and never believes a length that leads past its end.
 * Every method throws `Damage` where the file is too short.
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
   * Makes `bytes` available to the synchronous readers below; awaits nothing where they are there.
   * Reading 300,000 words would otherwise take as many turns of the microtask queue.
   */
  ensureAvailable(bytes: number): Promise<void> | undefined {
    if (this.#offset + bytes <= this.#chunk.length) return undefined;
    return this.#fill(bytes);
  }

  async #fill(bytes: number): Promise<void> {
    this.#signal.throwIfAborted();
    const start = this.offset;
    if (bytes > this.remaining)
      throw new GgufError(`it ends at byte ${this.#fileBytes}, too early`);
    const length = Math.min(Math.max(bytes, CHUNK_BYTES), this.remaining);
    const chunk = Buffer.allocUnsafe(length);
    let filled = 0;
    while (filled < length) {
      const { bytesRead } = await this.#file.read(chunk, filled, length - filled, start + filled);
      if (bytesRead === 0) throw new GgufError("it became shorter while it was read");
      filled += bytesRead;
    }
    this.#chunk = chunk;
    this.#chunkStart = start;
    this.#offset = 0;
  }

  /** Goes on behind `bytes` bytes, which are not read where they are many. */
  skip(bytes: number): void {
    if (bytes > this.remaining)
      throw new GgufError(`it ends at byte ${this.#fileBytes}, too early`);
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

  /** A count, a length or an offset: what is past 2^53 is damage whatever it counts. */
  uint64(): number {
    const value = Number(this.#chunk.readBigUInt64LE(this.#offset));
    this.#offset += 8;
    if (!Number.isSafeInteger(value)) throw new GgufError("it holds an impossible number");
    return value;
  }

  bytes(length: number): Buffer {
    const value = this.#chunk.subarray(this.#offset, this.#offset + length);
    this.#offset += length;
    return value;
  }
}
