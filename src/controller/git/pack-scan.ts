import { inflateSync } from "node:zlib";

export interface PackLimits {
  /** The limit of bytes of one unpacked object. */
  readonly objectBytesMax: number;
  /** The limit of bytes of all unpacked objects. */
  readonly totalBytesMax: number;
}

/**
 * True if all objects of the pack, unpacked, are within the limits. A few kilobytes of zeros or of copying deltas can
 * expand to gigabytes, which isomorphic-git would unpack without a limit. Returns true for a pack that cannot be
 * read, because the unpacking reports that error.
 */
export function isPackWithinLimits(pack: Buffer, limits: PackLimits): boolean {
  if (pack.length < 32 || pack.toString("latin1", 0, 4) !== "PACK") return true;
  const count = pack.readUInt32BE(8);
  let at = 12;
  let total = 0;
  for (let object = 0; object < count && at < pack.length - 20; object++) {
    const type = ((pack[at] ?? 0) >> 4) & 7;
    const declared = readSize(pack, at, 4);
    at = declared.end;
    if (type === 6) at = readSize(pack, at, 7).end;
    else if (type === 7) at += 20;
    const inflated = inflate(pack.subarray(at), limits.objectBytesMax);
    if (inflated === "damaged") return true;
    if (inflated === "large") return false;
    at += inflated.read;
    const size =
      type === 6 || type === 7 ? readDeltaResultSize(inflated.data) : inflated.data.length;
    total += Math.max(size, inflated.data.length);
    if (size > limits.objectBytesMax || total > limits.totalBytesMax) return false;
  }
  return true;
}

/**
 * Reads a number in a pack: `firstBits` bits from the first byte, and seven bits from each further byte. The highest
 * bit of a byte is set if another byte follows.
 */
function readSize(
  pack: Uint8Array,
  start: number,
  firstBits: number,
): { size: number; end: number } {
  let at = start;
  let byte = pack[at++] ?? 0;
  let size = byte & (2 ** firstBits - 1);
  let scale = 2 ** firstBits;
  while ((byte & 0x80) !== 0 && at < pack.length) {
    byte = pack[at++] ?? 0;
    size += (byte & 0x7f) * scale;
    scale *= 128;
  }
  return { size, end: at };
}

/** Reads the two sizes at the beginning of a delta: the size of its base and the size of its result. */
function readDeltaResultSize(delta: Uint8Array): number {
  return readSize(delta, readSize(delta, 0, 7).end, 7).size;
}

function inflate(
  data: Uint8Array,
  most: number,
): { data: Uint8Array; read: number } | "large" | "damaged" {
  try {
    // With `info` zlib reports how much it has read, which is the only way to find the next object.
    const result: unknown = inflateSync(data, { maxOutputLength: most, info: true });
    return isInflated(result)
      ? { data: result.buffer, read: result.engine.bytesWritten }
      : "damaged";
  } catch (error) {
    return error instanceof RangeError ? "large" : "damaged";
  }
}

function isInflated(
  value: unknown,
): value is { buffer: Uint8Array; engine: { bytesWritten: number } } {
  return typeof value === "object" && value !== null && "buffer" in value && "engine" in value;
}
