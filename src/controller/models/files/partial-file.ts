import type { FileHandle } from "node:fs/promises";
import { mkdir, open, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fsyncDirectory } from "../../../base/atomic-file.ts";
import type { Semaphore } from "../../../base/mutex.ts";
import { PartialJournal, type PartialJournalEntry, readPartialJournal } from "./partial-journal.ts";
import { addRange, type ByteRanges, clipRanges, countBytes, countPrefixBytes } from "./ranges.ts";

/**
 * So often what has come is made safe: what a second brings may have to come again after a kill. Flushes by the
 * number of bytes made a fast download half as fast again.
 */
const FLUSH_MS = 1_000;
/** The first time sooner: who is killed again and again should get on all the same. */
const FIRST_FLUSH_MS = 200;

/** Of what the bytes are, and for whom. */
export type PartialOrigin = Omit<PartialJournalEntry, "ranges">;

const DATA = "data";
const JOURNAL = "journal";

/**
 * A file that is half there: its bytes in their places, and a journal of those that are on the disk. The
 * order is always bytes, flush, journal; so that the journal never claims what is not there.
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

  /** Opens what is there, or makes it anew. `writes` bounds how many write at once. */
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

  /** Without a gap from the beginning on. */
  get prefixBytes(): number {
    return countPrefixBytes(this.#written);
  }

  /** What is told with the next flush. */
  setOrigin(origin: PartialOrigin): void {
    this.#origin = origin;
    this.#isDirty = true;
  }

  /** What is there is of something else: it is not claimed any more, and then gone. */
  async reset(origin: PartialOrigin): Promise<void> {
    await this.#flushing;
    this.#written = [];
    this.#origin = origin;
    await this.#journal.write({ ...origin, ranges: [] });
    await this.#data.truncate(0);
    this.#isDirty = false;
  }

  /** Writes all of it there, and has it flushed now and then. Throws also what an earlier flush met. */
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

  /** When it has returned, all that was written is on the disk, and claimed. */
  async flush(): Promise<void> {
    await this.#flushing;
    if (this.#isDirty) await this.#flushNow();
    this.#flushFailure = undefined;
  }

  /** Once: without its name a file is nowhere after a power cut. */
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

  /** All that was written is on the disk, and nothing is claimed: it is whole, and about to be moved away. */
  async syncData(): Promise<void> {
    await this.#flushing;
    await this.#data.datasync();
  }

  /** Whatever was written since the last flush is not claimed; it comes again, if it has to. */
  async close(): Promise<void> {
    await this.#flushing;
    await this.#data.close();
    await this.#journal.close();
  }
}

/** Of a partial file that nobody has open. `bytes` is never more than what is there. */
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

/** What it takes of the disk, and when it was last written to; undefined where it is no partial file. */
export async function readPartialDiskUse(
  dir: string,
): Promise<{ readonly sizeBytes: number; readonly changedMs: number } | undefined> {
  try {
    const [data, journal] = await Promise.all([stat(join(dir, DATA)), stat(join(dir, JOURNAL))]);
    return {
      // Of 512 bytes each, whatever the file system's own blocks are: gaps take none.
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
  // A short write is rare: the disk is nearly full, or a signal came. The next one tells what it is.
  const rest = Buffer.concat(buffers).subarray(bytesWritten);
  for (let done = 0; done < rest.length; ) {
    const result = await file.write(rest, done, rest.length - done, position + bytesWritten + done);
    done += result.bytesWritten;
  }
}
