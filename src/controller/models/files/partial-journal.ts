import { createHash } from "node:crypto";
import { type FileHandle, open } from "node:fs/promises";
import { type ByteRange, type ByteRanges, selectLargestRanges } from "./ranges.ts";

/** The recorded state of an incomplete file. */
export interface PartialJournalEntry {
  /** A digest of the source URL, because the URL may contain secrets. */
  readonly source: string;
  /** The strong entity tag of the source. */
  readonly validator: string | null;
  readonly sizeBytes: number | null;
  /** Keys of the models that need the file. */
  readonly keys: readonly string[];
  /** The bytes that are flushed to the disk. */
  readonly ranges: ByteRanges;
}

/**
 * The size of a slot, which contains one entry. An entry with long entity tags and keys needs more than a disk block.
 */
const SLOT_BYTES = 16 * 2 ** 10;
const RANGES_MAX = 200;
const KEYS_MAX = 16;

/**
 * The journal of a partial file, which records the bytes that are on the disk. It has two slots, which are written
 * alternately: an interrupted write damages only the older entry, and no write needs new space on a full disk.
 */
export class PartialJournal {
  readonly #handle: FileHandle;
  #sequence: number;

  private constructor(handle: FileHandle, sequence: number) {
    this.#handle = handle;
    this.#sequence = sequence;
  }

  /**
   * Opens the journal of a partial file, or creates it. `entry` is the last intact entry; undefined if the journal has
   * none.
   */
  static async open(
    path: string,
  ): Promise<{ journal: PartialJournal; entry: PartialJournalEntry | undefined }> {
    // The flag "a" creates the file if necessary, and does not truncate it.
    await (await open(path, "a", 0o600)).close();
    const handle = await open(path, "r+");
    try {
      const last = await readNewestSlot(handle);
      // Allocates the whole journal, so that later writes need no new disk space.
      if (!last) await handle.write(Buffer.alloc(2 * SLOT_BYTES, " "), 0, 2 * SLOT_BYTES, 0);
      return { journal: new PartialJournal(handle, last?.sequence ?? 0), entry: last?.entry };
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  /** Writes and flushes the entry. */
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
    if (bytesWritten !== SLOT_BYTES) throw new Error("a journal entry was written incompletely");
    await this.#handle.datasync();
    this.#sequence = sequence;
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }
}

/** Reads the newest entry of a journal that no download has open; undefined if there is no journal. */
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
