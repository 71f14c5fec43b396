import { createHash } from "node:crypto";
import { type FileHandle, open } from "node:fs/promises";
import { type ByteRange, type ByteRanges, selectLargestRanges } from "./ranges.ts";

/** What is known of a file that is half there. */
export interface PartialJournalEntry {
  /** Digest of the URL that the bytes came from: URLs may hold secrets. */
  readonly source: string;
  /** Strong entity tag that the bytes came with. */
  readonly validator: string | null;
  readonly sizeBytes: number | null;
  /** Keys of the models that have asked for it. */
  readonly keys: readonly string[];
  /** On the disk for certain. */
  readonly ranges: ByteRanges;
}

/** One block of the smallest kind of disk would do; some etags and keys are long. */
const SLOT_BYTES = 16 * 2 ** 10;
const RANGES_MAX = 200;
const KEYS_MAX = 16;

/**
 * Two places that are written in turn, over what stood there before last: a write that is cut off damages
 * the older one of the two, and none needs space that a full disk does not have.
 */
export class PartialJournal {
  readonly #handle: FileHandle;
  #sequence: number;

  private constructor(handle: FileHandle, sequence: number) {
    this.#handle = handle;
    this.#sequence = sequence;
  }

  /** Opens or makes it. The entry is undefined where none was ever written, or none is whole. */
  static async open(
    path: string,
  ): Promise<{ journal: PartialJournal; entry: PartialJournalEntry | undefined }> {
    // "a" makes it where it is not there, and leaves it where it is.
    await (await open(path, "a", 0o600)).close();
    const handle = await open(path, "r+");
    try {
      const last = await readNewestSlot(handle);
      // Both places get their space on the disk now.
      if (!last) await handle.write(Buffer.alloc(2 * SLOT_BYTES, " "), 0, 2 * SLOT_BYTES, 0);
      return { journal: new PartialJournal(handle, last?.sequence ?? 0), entry: last?.entry };
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  /** When it has returned, it is on the disk. */
  async write(entry: PartialJournalEntry): Promise<void> {
    const sequence = this.#sequence + 1;
    const { ranges, keys } = entry;
    const body = JSON.stringify({
      sequence,
      ...entry,
      keys: keys.slice(-KEYS_MAX),
      ranges: selectLargestRanges(ranges, RANGES_MAX).map(({ start, end }) => [start, end]),
    });
    const slot = Buffer.alloc(SLOT_BYTES, " ");
    slot.write(`${hashText(body)}\n${body}\n`);
    if (Buffer.byteLength(body) + 70 > SLOT_BYTES) throw new Error("a journal entry is too long");
    const { bytesWritten } = await this.#handle.write(
      slot,
      0,
      SLOT_BYTES,
      (sequence % 2) * SLOT_BYTES,
    );
    if (bytesWritten !== SLOT_BYTES) throw new Error("a journal entry was written in part");
    await this.#handle.datasync();
    this.#sequence = sequence;
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }
}

/** Of a journal that nobody has open; undefined where there is none. */
export async function readPartialJournal(path: string): Promise<PartialJournalEntry | undefined> {
  let handle: FileHandle;
  try {
    handle = await open(path, "r");
  } catch {
    return undefined;
  }
  try {
    return (await readNewestSlot(handle))?.entry;
  } finally {
    await handle.close();
  }
}

interface Slot {
  readonly sequence: number;
  readonly entry: PartialJournalEntry;
}

async function readNewestSlot(handle: FileHandle): Promise<Slot | undefined> {
  const both = Buffer.alloc(2 * SLOT_BYTES);
  const { bytesRead } = await handle.read(both, 0, both.length, 0);
  const slots = [0, SLOT_BYTES]
    .map((at) =>
      parseSlot(
        both.toString("utf8", Math.min(at, bytesRead), Math.min(at + SLOT_BYTES, bytesRead)),
      ),
    )
    .filter((slot) => slot !== undefined);
  return slots.toSorted((a, b) => b.sequence - a.sequence)[0];
}

function parseSlot(text: string): Slot | undefined {
  const [digest, body] = text.split("\n");
  if (body === undefined || digest !== hashText(body)) return undefined;
  const value: unknown = JSON.parse(body);
  if (typeof value !== "object" || value === null) return undefined;
  const fields = new Map<string, unknown>(Object.entries(value));
  const [sequence, source, validator, sizeBytes, keys, ranges] = [
    "sequence",
    "source",
    "validator",
    "sizeBytes",
    "keys",
    "ranges",
  ].map((name) => fields.get(name));
  if (typeof sequence !== "number" || typeof source !== "string") return undefined;
  if (!Array.isArray(keys) || !Array.isArray(ranges)) return undefined;
  return {
    sequence,
    entry: {
      source,
      validator: typeof validator === "string" ? validator : null,
      sizeBytes: typeof sizeBytes === "number" ? sizeBytes : null,
      keys: keys.filter((key) => typeof key === "string"),
      ranges: ranges.map(parseRange).filter((range) => range !== undefined),
    },
  };
}

function parseRange(value: unknown): ByteRange | undefined {
  if (!Array.isArray(value)) return undefined;
  const [start, end]: unknown[] = value;
  return typeof start === "number" && typeof end === "number" ? { start, end } : undefined;
}

function hashText(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
