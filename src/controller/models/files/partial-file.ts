import type { FileHandle } from "node:fs/promises";
import { mkdir, open, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fsyncDirectory } from "../../../base/atomic-file.ts";
import type { Semaphore } from "../../../base/mutex.ts";
import { PartialJournal, type PartialJournalEntry, readPartialJournal } from "./partial-journal.ts";
import { addRange, type ByteRanges, clipRanges, countBytes, countPrefixBytes } from "./ranges.ts";

/**
 * The interval of flushes. If Berth is killed, up to a second of a download is lost. With a flush after a number of
 * bytes instead, a fast download took 50 % longer.
 */
const FLUSH_MS = 1_000;
/** The delay before the first flush. It is short, so that a download that is killed repeatedly still makes progress. */
const FIRST_FLUSH_MS = 200;

/** The source of the bytes, and the models that need them. */
export type PartialOrigin = Omit<PartialJournalEntry, "ranges">;

const DATA = "data";
const JOURNAL = "journal";

/**
 * An incomplete file: the received bytes at their final positions, and a journal that lists the bytes on the disk.
 * Bytes are written and flushed before the journal, so that the journal never lists bytes that are not on the disk.
 */
export class PartialFile {
  readonly dir: string;
  readonly #data: FileHandle;
  readonly #journal: PartialJournal;
  readonly #writes: Semaphore;
  #origin: PartialOrigin;
  #written: ByteRanges;
  #isDirty = false;
  #areNamesSynced = false;
  #flushing: Promise<void> | undefined;
  #flushFailure: unknown;
  #flushedAtMs: number | undefined;

  private constructor(
    dir: string,
    data: FileHandle,
    journal: PartialJournal,
    writes: Semaphore,
    origin: PartialOrigin,
    written: ByteRanges,
  ) {
    this.dir = dir;
    this.#data = data;
    this.#journal = journal;
    this.#writes = writes;
    this.#origin = origin;
    this.#written = written;
  }

  /** Opens a partial file, or creates it. `writes` bounds the concurrent writes. */
  static async open(dir: string, origin: PartialOrigin, writes: Semaphore): Promise<PartialFile> {
    await mkdir(dir, { recursive: true, mode: 0o700 });
    await (await open(join(dir, DATA), "a", 0o600)).close();
    const data = await open(join(dir, DATA), "r+");
    try {
      const { journal, entry } = await PartialJournal.open(join(dir, JOURNAL));
      if (!entry) {
        await data.truncate(0);
        return new PartialFile(dir, data, journal, writes, origin, []);
      }
      const { ranges, ...known } = entry;
      const { size } = await data.stat();
      return new PartialFile(dir, data, journal, writes, known, clipRanges(ranges, size));
    } catch (error) {
      await data.close();
      throw error;
    }
  }

  get path(): string {
    return join(this.dir, DATA);
  }

  get origin(): PartialOrigin {
    return this.#origin;
  }

  get written(): ByteRanges {
    return this.#written;
  }

  get writtenBytes(): number {
    return countBytes(this.#written);
  }

  /** The number of bytes from the start of the file to its first gap. */
  get prefixBytes(): number {
    return countPrefixBytes(this.#written);
  }

  /** Sets the source from which the file is downloaded. The next flush writes it to the journal of the partial file. */
  setOrigin(origin: PartialOrigin): void {
    this.#origin = origin;
    this.#isDirty = true;
  }

  /** Discards all bytes. The journal is emptied before the data. */
  async reset(origin: PartialOrigin): Promise<void> {
    await this.#flushing;
    this.#written = [];
    this.#origin = origin;
    await this.#journal.write({ ...origin, ranges: [] });
    await this.#data.truncate(0);
    this.#isDirty = false;
  }

  /**
   * Writes the buffers, and starts a flush if the last one was long enough ago. Also throws the error of an earlier
   * flush.
   */
  async write(buffers: readonly Buffer[], position: number, nowMs: number): Promise<void> {
    if (this.#flushFailure !== undefined) throw this.#flushFailure;
    const bytes = buffers.reduce((sum, { length }) => sum + length, 0);
    await this.#writes.run(() => writeAll(this.#data, buffers, position));
    this.#written = addRange(this.#written, { start: position, end: position + bytes });
    this.#isDirty = true;
    this.#flushedAtMs ??= nowMs - FLUSH_MS + FIRST_FLUSH_MS;
    if (nowMs - this.#flushedAtMs < FLUSH_MS || this.#flushing) return;
    this.#flushedAtMs = nowMs;
    this.#flushing = this.#flushNow()
      .catch((error: unknown) => {
        this.#flushFailure = error;
      })
      .finally(() => {
        this.#flushing = undefined;
      });
  }

  /** Flushes all written bytes and the journal. */
  async flush(): Promise<void> {
    await this.#flushing;
    if (this.#isDirty) await this.#flushNow();
    this.#flushFailure = undefined;
  }

  /** Flushes the folder and its parent once, so that a power cut cannot lose the names of the partial file. */
  async #syncNames(): Promise<void> {
    if (this.#areNamesSynced) return;
    await fsyncDirectory(this.dir);
    await fsyncDirectory(dirname(this.dir));
    this.#areNamesSynced = true;
  }

  async #flushNow(): Promise<void> {
    const ranges = this.#written;
    const origin = this.#origin;
    this.#isDirty = false;
    try {
      await this.#data.datasync();
      await this.#syncNames();
      await this.#journal.write({ ...origin, ranges });
    } catch (error) {
      this.#isDirty = true;
      throw error;
    }
  }

  /**
   * Flushes the data of a complete file that is about to be moved. The journal is not written, because it describes
   * only incomplete files.
   */
  async syncData(): Promise<void> {
    await this.#flushing;
    await this.#data.datasync();
  }

  /** Closes the file. Bytes written since the last flush are not in the journal and may be downloaded again. */
  async close(): Promise<void> {
    await this.#flushing;
    await this.#data.close();
    await this.#journal.close();
  }
}

/** Reads the journal of a partial file that is not open. `bytes` never exceeds the size of the file. */
export async function inspectPartial(
  dir: string,
): Promise<{ readonly entry: PartialJournalEntry | undefined; readonly bytes: number }> {
  const entry = await readPartialJournal(join(dir, JOURNAL));
  const size = await stat(join(dir, DATA)).then(
    (found) => found.size,
    () => 0,
  );
  return { entry, bytes: countBytes(clipRanges(entry?.ranges ?? [], size)) };
}

/** Returns the disk use and the time of the last write; undefined if the folder contains no partial file. */
export async function readPartialDiskUse(
  dir: string,
): Promise<{ readonly sizeBytes: number; readonly changedMs: number } | undefined> {
  try {
    const [data, journal] = await Promise.all([stat(join(dir, DATA)), stat(join(dir, JOURNAL))]);
    return {
      // `blocks` counts blocks of 512 bytes, independent of the file system's block size. Gaps in the file take no
      // blocks.
      sizeBytes: (data.blocks + journal.blocks) * 512,
      changedMs: Math.max(data.mtimeMs, journal.mtimeMs),
    };
  } catch {
    return undefined;
  }
}

export async function removePartial(dir: string): Promise<void> {
  await rm(dir, { recursive: true, force: true });
}

async function writeAll(
  file: FileHandle,
  buffers: readonly Buffer[],
  position: number,
): Promise<void> {
  const { bytesWritten } = await file.writev(buffers, position);
  const bytes = buffers.reduce((sum, { length }) => sum + length, 0);
  if (bytesWritten === bytes) return;
  // A short write means that the disk is nearly full, or that a signal arrived. The next write throws the error.
  const rest = Buffer.concat(buffers).subarray(bytesWritten);
  for (let done = 0; done < rest.length; ) {
    const result = await file.write(rest, done, rest.length - done, position + bytesWritten + done);
    done += result.bytesWritten;
  }
}
