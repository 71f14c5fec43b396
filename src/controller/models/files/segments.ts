import { addRange, type ByteRange, type ByteRanges, countBytes } from "./ranges.ts";

/**
 * No request is for more: what comes in order can be hashed while it comes, and a part that is slow
 * holds up little. At 50 MB/s a connection asks again every second or so, on a connection that is open.
 */
const CLAIM_BYTES_MAX = 64 * 2 ** 20;
/** None is for less, until the end is near. A smaller one costs more in round trips than it evens out. */
const CLAIM_BYTES_MIN = 4 * 2 ** 20;
/** What is left of a slow connection's part is divided, unless it is less than this. */
const SPLIT_BYTES_MIN = 512 * 2 ** 10;
/** A part that has been on its way for less is not taken to be slow. */
const SPLIT_AFTER_MS = 1_000;

/** What one connection is bringing. The connection moves `received` and `written` on; the end may come nearer. */
export class Claim {
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
 * Who brings what of a file. Parts are given out from the front to the back, and get smaller towards the
 * end, so that all connections end at about the same time; one that finds nothing left takes half of
 * what the slowest still has before it.
 */
export class Segments {
  readonly #parts: number;
  readonly #claims = new Set<Claim>();
  #unclaimed: ByteRanges;

  constructor(missing: ByteRanges, parts: number) {
    this.#unclaimed = missing;
    this.#parts = parts;
  }

  /** Nothing is left, and nothing on its way. */
  get isDone(): boolean {
    return this.#unclaimed.length === 0 && this.#claims.size === 0;
  }

  /** Bytes that have come and are not written yet. */
  get bufferedBytes(): number {
    let bytes = 0;
    for (const { received, written } of this.#claims) bytes += received - written;
    return bytes;
  }

  /** The next part to bring; undefined where all is given out and nobody is slow. */
  claim(nowMs: number): Claim | undefined {
    const [first, ...others] = this.#unclaimed;
    if (!first) return this.#split(nowMs);
    const share = Math.ceil(countBytes(this.#unclaimed) / (2 * this.#parts));
    const bytes = Math.min(Math.max(share, CLAIM_BYTES_MIN), CLAIM_BYTES_MAX);
    const end = Math.min(first.end, first.start + bytes);
    this.#unclaimed = end < first.end ? [{ start: end, end: first.end }, ...others] : others;
    return this.#register(new Claim({ start: first.start, end }, nowMs));
  }

  /** A connection is done with it: what it has not written is given out again. */
  release(claim: Claim): void {
    if (!this.#claims.delete(claim)) return;
    this.#unclaimed = addRange(this.#unclaimed, { start: claim.written, end: claim.end });
  }

  #split(nowMs: number): Claim | undefined {
    let slowest: Claim | undefined;
    for (const claim of this.#claims) {
      if (nowMs - claim.sinceMs < SPLIT_AFTER_MS) continue;
      if (claim.end - claim.received < SPLIT_BYTES_MIN) continue;
      if (!slowest || claim.end - claim.received > slowest.end - slowest.received) slowest = claim;
    }
    if (!slowest) return undefined;
    const middle = slowest.received + Math.ceil((slowest.end - slowest.received) / 2);
    const taken = new Claim({ start: middle, end: slowest.end }, nowMs);
    slowest.end = middle;
    return this.#register(taken);
  }

  #register(claim: Claim): Claim {
    this.#claims.add(claim);
    return claim;
  }
}
