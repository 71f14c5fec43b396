import { addRange, type ByteRange, type ByteRanges, countBytes } from "./ranges.ts";

/**
 * The size of the largest part. Hashing needs the bytes in order, so a slow part must not delay much data. At 50 MB/s
 * a connection sends a request about every second.
 */
const PART_BYTES_MAX = 64 * 2 ** 20;
/**
 * The size of the smallest part, except at the end of a file. Smaller parts would let the connections end closer
 * together, but their additional round trips would take longer than that saves.
 */
const PART_BYTES_MIN = 4 * 2 ** 20;
/** The rest of a slow part is not divided if it is smaller than this. */
const SPLIT_BYTES_MIN = 512 * 2 ** 10;
/** A connection counts as slow only if it has not completed its part of the file after this time. */
const SPLIT_AFTER_MS = 1_000;

/** The part that one connection downloads. `received` and `written` grow; `end` may become smaller. */
export class Part {
  received: number;
  written: number;
  end: number;
  readonly sinceMs: number;

  constructor(range: ByteRange, nowMs: number) {
    this.received = range.start;
    this.written = range.start;
    this.end = range.end;
    this.sinceMs = nowMs;
  }
}

/**
 * The missing bytes of a file, divided into parts for its connections. Parts are handed out from the front to the back.
 * They become smaller towards the end, so that all connections end at about the same time. If no part is left, a
 * connection takes over the second half of the bytes that the slowest other connection has not received yet.
 */
export class PartQueue {
  readonly #connections: number;
  readonly #active = new Set<Part>();
  #missing: ByteRanges;

  constructor(missing: ByteRanges, connections: number) {
    this.#missing = missing;
    this.#connections = connections;
  }

  /** True when all bytes are written. */
  get isDone(): boolean {
    return this.#missing.length === 0 && this.#active.size === 0;
  }

  /** Bytes that were received and are not written yet. */
  get bufferedBytes(): number {
    let bytes = 0;
    for (const { received, written } of this.#active) bytes += received - written;
    return bytes;
  }

  /** Returns the next part. Returns undefined if other connections have all parts and none of them is slow. */
  take(nowMs: number): Part | undefined {
    const [first, ...others] = this.#missing;
    if (!first) return this.#splitSlowest(nowMs);
    const share = Math.ceil(countBytes(this.#missing) / (2 * this.#connections));
    const bytes = Math.min(Math.max(share, PART_BYTES_MIN), PART_BYTES_MAX);
    const end = Math.min(first.end, first.start + bytes);
    this.#missing = end < first.end ? [{ start: end, end: first.end }, ...others] : others;
    return this.#activate(new Part({ start: first.start, end }, nowMs));
  }

  /** Ends the download of a part. Bytes of the part that were not written to the file count as missing again. */
  release(part: Part): void {
    if (!this.#active.delete(part)) return;
    this.#missing = addRange(this.#missing, { start: part.written, end: part.end });
  }

  #splitSlowest(nowMs: number): Part | undefined {
    let slowest: Part | undefined;
    for (const part of this.#active) {
      if (nowMs - part.sinceMs < SPLIT_AFTER_MS) continue;
      if (part.end - part.received < SPLIT_BYTES_MIN) continue;
      if (!slowest || part.end - part.received > slowest.end - slowest.received) slowest = part;
    }
    if (!slowest) return undefined;
    const middle = slowest.received + Math.ceil((slowest.end - slowest.received) / 2);
    const half = new Part({ start: middle, end: slowest.end }, nowMs);
    slowest.end = middle;
    return this.#activate(half);
  }

  #activate(part: Part): Part {
    this.#active.add(part);
    return part;
  }
}
