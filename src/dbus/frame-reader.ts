import type { BusValue } from "./port.ts";
import { LITTLE_ENDIAN, ValueReader } from "./value-reader.ts";

/**
 * Size of the fixed part of the header: byte order, type, flags, version, body length, serial, length of the fields.
 */
const FIXED_BYTES = 16;
/** Largest size of the header fields, which are an array: the D-Bus limit for arrays. */
const FIELDS_BYTES_MAX = 64 * 2 ** 20;
/**
 * The maximum number of values in the header fields. D-Bus has nine fields of a few values each; a message with more
 * values is ignored.
 */
const FIELD_VALUES_MAX = 4096;
/** Longest object path that is accepted. D-Bus does not limit paths, but no real object has a longer path. */
const PATH_LENGTH_MAX = 64 * 1024;
const BIG_ENDIAN = "B".charCodeAt(0);

/** A received message whose body is not decoded yet. */
export interface Frame {
  readonly type: number;
  readonly flags: number;
  readonly serial: number;
  /** The object path; undefined if the message has none, or if it was longer than the limit. */
  readonly path: string | undefined;
  readonly interface: string | undefined;
  readonly member: string | undefined;
  readonly errorName: string | undefined;
  readonly replySerial: number | undefined;
  readonly destination: string | undefined;
  readonly sender: string | undefined;
  readonly signature: string;
  /** Number of file descriptors that were sent with the message. */
  readonly fdCount: number;
  readonly endian: number;
  /** The body; undefined if it was longer than the limit, in which case it is discarded while it arrives. */
  readonly body: Buffer | undefined;
}

/** Thrown if the received data is not D-Bus, so that the connection cannot continue. */
export class BrokenStreamError extends Error {}

/** Splits received data into messages. A body above the limit is never held in memory. */
export class FrameReader {
  readonly #bodyBytesMax: number;
  readonly #onFrame: (frame: Frame) => void;
  #chunks: Buffer[] = [];
  #bufferedBytes = 0;
  #needed = FIXED_BYTES;
  #header: FixedHeader | undefined;
  #bytesToSkip = 0;

  constructor(bodyBytesMax: number, onFrame: (frame: Frame) => void) {
    this.#bodyBytesMax = bodyBytesMax;
    this.#onFrame = onFrame;
  }

  /**
   * Adds received data and delivers each message that it completes. Throws BrokenStreamError if the data does not
   * follow the D-Bus protocol.
   */
  push(chunk: Buffer): void {
    const skipped = Math.min(this.#bytesToSkip, chunk.length);
    this.#bytesToSkip -= skipped;
    if (skipped === chunk.length) return;
    this.#chunks.push(skipped > 0 ? chunk.subarray(skipped) : chunk);
    this.#bufferedBytes += chunk.length - skipped;
    while (this.#bufferedBytes >= this.#needed) this.#step();
  }

  #step(): void {
    if (!this.#header) {
      this.#header = parseFixedHeader(this.#take(FIXED_BYTES));
      const { fieldsBytes, bodyBytes } = this.#header;
      if (fieldsBytes > FIELDS_BYTES_MAX) {
        throw new BrokenStreamError("a message has longer header fields than D-Bus allows");
      }
      this.#needed = padLength(fieldsBytes) + (bodyBytes > this.#bodyBytesMax ? 0 : bodyBytes);
      return;
    }
    const fixed = this.#header;
    const bytes = this.#take(this.#needed);
    const isTooLong = fixed.bodyBytes > this.#bodyBytesMax;
    this.#header = undefined;
    this.#needed = FIXED_BYTES;
    const body = isTooLong ? undefined : bytes.subarray(padLength(fixed.fieldsBytes));
    if (isTooLong) this.#skip(fixed.bodyBytes);
    let frame: Frame;
    try {
      frame = parseFrame(fixed, bytes, body);
    } catch {
      // The message is ignored, but the connection continues: the length of the header is known, so the next message
      // can be read.
      return;
    }
    this.#onFrame(frame);
  }

  #skip(bytes: number): void {
    const held = Math.min(bytes, this.#bufferedBytes);
    this.#take(held);
    this.#bytesToSkip = bytes - held;
    this.#needed = FIXED_BYTES;
  }

  #take(bytes: number): Buffer {
    const [first] = this.#chunks;
    // A long message is copied once when it is complete, not once per received chunk.
    const all =
      this.#chunks.length === 1 && first ? first : Buffer.concat(this.#chunks, this.#bufferedBytes);
    this.#bufferedBytes -= bytes;
    this.#chunks = this.#bufferedBytes > 0 ? [all.subarray(bytes)] : [];
    return all.subarray(0, bytes);
  }
}

interface FixedHeader {
  readonly endian: number;
  readonly type: number;
  readonly flags: number;
  readonly serial: number;
  readonly bodyBytes: number;
  readonly fieldsBytes: number;
}

function parseFixedHeader(bytes: Buffer): FixedHeader {
  const endian = bytes.readUInt8(0);
  if (endian !== LITTLE_ENDIAN && endian !== BIG_ENDIAN) {
    throw new BrokenStreamError("the received data is not a D-Bus message");
  }
  const read = (at: number) =>
    endian === LITTLE_ENDIAN ? bytes.readUInt32LE(at) : bytes.readUInt32BE(at);
  return {
    endian,
    type: bytes.readUInt8(1),
    flags: bytes.readUInt8(2),
    bodyBytes: read(4),
    serial: read(8),
    fieldsBytes: read(12),
  };
}

/** Parses the header fields of a message. Throws like `readValues`. */
function parseFrame(fixed: FixedHeader, bytes: Buffer, body: Buffer | undefined): Frame {
  const fields = new Map<number, BusValue>();
  const reader = new ValueReader(bytes, {
    endian: fixed.endian,
    fds: [],
    valuesMax: FIELD_VALUES_MAX,
  });
  while (reader.position < fixed.fieldsBytes) {
    reader.align(8);
    const code = reader.readByte();
    const variant = reader.readVariant();
    fields.set(code, variant.value);
  }
  const text = (code: number): string | undefined => {
    const value = fields.get(code);
    return typeof value === "string" ? value : undefined;
  };
  const count = (code: number): number | undefined => {
    const value = fields.get(code);
    return typeof value === "number" ? value : undefined;
  };
  const path = text(1);
  return {
    type: fixed.type,
    flags: fixed.flags,
    serial: fixed.serial,
    path: path !== undefined && path.length > PATH_LENGTH_MAX ? undefined : path,
    interface: text(2),
    member: text(3),
    errorName: text(4),
    replySerial: count(5),
    destination: text(6),
    sender: text(7),
    signature: text(8) ?? "",
    fdCount: count(9) ?? 0,
    endian: fixed.endian,
    body,
  };
}

/** Returns the length of the header fields with their padding to a multiple of eight bytes. */
function padLength(length: number): number {
  return Math.ceil(length / 8) * 8;
}
