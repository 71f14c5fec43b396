import { createHash, randomUUID } from "node:crypto";
import { lstatSync, renameSync, rmSync, unlinkSync } from "node:fs";
import { type FileHandle, lstat, mkdir, open, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { Header } from "tar";
import { fsyncDirectory } from "../../base/atomic-file.ts";
import { BerthError, getErrorCode, isDiskFull } from "../../base/errors.ts";
import { formatBytes } from "../../base/units.ts";
import type { ExtractLimits } from "./archive-tree.ts";
import { checkArchive } from "./extract-archive.ts";
import type { UploadedArchive } from "./port.ts";
import { SOURCE_LIMITS } from "./source-limits.ts";

export interface StoredArchive extends UploadedArchive {
  /** Time of the last upload, in epoch milliseconds. */
  readonly storedAtMs: number;
}

/** Matches digests. A digest becomes a part of a path, so no other text is accepted. */
const digestPattern = /^[0-9a-f]{64}$/;
const ARCHIVE_SUFFIX = ".archive";
const PARTIAL_SUFFIX = ".part";
/**
 * The number of bytes that identify an archive's format: a tar file begins with a header block of this length, and gzip
 * data with two known bytes.
 */
const HEADER_BYTES = 512;

/**
 * Uploaded archives on the disk. Each has the sha256 of its bytes as its name, so that equal uploads share a file. A
 * file without a suffix is complete. A file with the suffix `.part` belongs to an upload that is in progress or was
 * interrupted.
 */
export class ArchiveStore {
  readonly #dir: string;
  readonly #bytesMax: number;
  readonly #limits: ExtractLimits;
  readonly #parts = new Set<string>();
  /**
   * Digests of archives that were uploaded again since this process started. Such an archive is not removed with its
   * App, because the second upload may be for another App.
   */
  readonly #reuploaded = new Set<string>();

  constructor(options: {
    readonly dir: string;
    /** The limit for the size of an uploaded archive. */
    readonly bytesMax: number;
    /** The limits of the content of an archive. */
    readonly limits?: ExtractLimits;
  }) {
    this.#dir = options.dir;
    this.#bytesMax = options.bytesMax;
    this.#limits = options.limits ?? SOURCE_LIMITS;
  }

  /**
   * Stores a stream of a gzipped or plain tar. Throws `payload_too_large`, `disk_full`, and `archive_invalid` as soon
   * as the first bytes are of another format, or at the end for an archive that is damaged or that `extractArchive`
   * would refuse. Nothing is left after an error or an abort.
   */
  async put(stream: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<UploadedArchive> {
    signal.throwIfAborted();
    const part = `${randomUUID()}${PARTIAL_SUFFIX}`;
    this.#parts.add(part);
    try {
      await mkdir(this.#dir, { recursive: true, mode: 0o700 });
      const written = await this.#write(part, stream, signal);
      await checkArchive(join(this.#dir, part), this.#limits, signal);
      // The rename is synchronous. No other code can remove an archive with the same content between the check for it
      // and the rename, and a later removal sees the new file.
      const isKnown = lstatSync(this.path(written.digest), { throwIfNoEntry: false }) !== undefined;
      renameSync(join(this.#dir, part), this.path(written.digest));
      if (isKnown) this.#reuploaded.add(written.digest);
      await fsyncDirectory(this.#dir);
      return written;
    } catch (error) {
      await rm(join(this.#dir, part), { force: true });
      signal.throwIfAborted();
      throw isDiskFull(error) ? diskFullError(error) : error;
    } finally {
      this.#parts.delete(part);
    }
  }

  async has(digest: string): Promise<boolean> {
    if (!digestPattern.test(digest)) return false;
    const state = await lstat(this.path(digest)).catch(() => undefined);
    return state?.isFile() === true;
  }

  /** Returns the path of the archive, whether it exists or not. Throws `invalid_request` for an invalid digest. */
  path(digest: string): string {
    if (!digestPattern.test(digest))
      throw new BerthError("invalid_request", "this is not the digest of an archive", {
        hint: "use the sha256 in 64 hexadecimal digits that the upload returned",
      });
    return join(this.#dir, `${digest}${ARCHIVE_SUFFIX}`);
  }

  /**
   * True if the archive was uploaded again. The second upload may be for an App whose spec does not name the archive
   * yet.
   */
  isReuploaded(digest: string): boolean {
    return this.#reuploaded.has(digest);
  }

  /**
   * Removes an archive that `list` returned. The removal is synchronous, so that the caller's check that nothing uses
   * the archive is still valid. Returns false if the archive was uploaded again since, or was already removed.
   */
  removeUnchanged({ digest, storedAtMs }: StoredArchive): boolean {
    const file = this.path(digest);
    const state = lstatSync(file, { throwIfNoEntry: false });
    if (state?.isFile() !== true || Math.round(state.mtimeMs) !== storedAtMs) return false;
    unlinkSync(file);
    this.#reuploaded.delete(digest);
    return true;
  }

  /**
   * Removes an archive synchronously, unless it was uploaded again. After a second upload, another request may be
   * about to use it.
   */
  discard(digest: string): void {
    if (!this.#reuploaded.has(digest)) rmSync(this.path(digest), { force: true });
  }

  /** Returns the archives, oldest first. */
  async list(): Promise<readonly StoredArchive[]> {
    const kept: StoredArchive[] = [];
    for (const name of await this.#names()) {
      const digest = name.endsWith(ARCHIVE_SUFFIX) ? name.slice(0, -ARCHIVE_SUFFIX.length) : "";
      if (!digestPattern.test(digest)) continue;
      const state = await lstat(this.path(digest)).catch(() => undefined);
      if (state?.isFile() === true)
        kept.push({ digest, bytes: state.size, storedAtMs: Math.round(state.mtimeMs) });
    }
    return kept.toSorted((a, b) => a.storedAtMs - b.storedAtMs || (a.digest < b.digest ? -1 : 1));
  }

  /** Removes the interrupted uploads of earlier processes when Berth starts. Returns their number. */
  async sweep(): Promise<number> {
    const left = (await this.#names()).filter(
      (name) => name.endsWith(PARTIAL_SUFFIX) && !this.#parts.has(name),
    );
    for (const name of left) await rm(join(this.#dir, name), { force: true });
    return left.length;
  }

  async #names(): Promise<string[]> {
    return readdir(this.#dir).catch((error: unknown) => {
      if (getErrorCode(error) === "ENOENT") return [];
      throw error;
    });
  }

  async #write(
    part: string,
    stream: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<UploadedArchive> {
    const file = await open(join(this.#dir, part), "wx", 0o600);
    try {
      const hash = createHash("sha256");
      let bytes = 0;
      for await (const chunk of validateArchive(abortable(stream, signal))) {
        bytes += chunk.length;
        if (bytes > this.#bytesMax)
          throw new BerthError(
            "payload_too_large",
            `the archive is larger than ${formatBytes(this.#bytesMax)}`,
            {
              hint: "exclude files that the build does not need in .dockerignore, or raise --upload-limit",
            },
          );
        hash.update(chunk);
        await writeAll(file, chunk);
      }
      await file.sync();
      return { digest: hash.digest("hex"), bytes };
    } finally {
      await file.close();
    }
  }
}

/** Ends a stream when the signal aborts, even if its source sends nothing. */
async function* abortable(
  stream: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const iterator = stream[Symbol.asyncIterator]();
  let isDone = false;
  try {
    while (!isDone) {
      const next = await rejectOnAbort(() => iterator.next(), signal);
      isDone = next.done === true;
      if (next.done !== true) yield next.value;
    }
  } finally {
    // The caller stopped reading early, or the signal has aborted. The end of the source is not awaited: a source that
    // hangs would block here, and its error does not matter any more.
    if (!isDone) iterator.return?.().catch(() => {});
  }
}

/**
 * Settles as `work` does, or rejects when the signal aborts. (Promise.race with one promise for the signal would keep
 * every chunk in memory until the signal aborts.)
 */
function rejectOnAbort<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const onAbort = () => reject(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    work()
      .then(resolve, reject)
      .finally(() => signal.removeEventListener("abort", onAbort));
  });
}

/**
 * Yields the chunks of an archive unchanged. Throws `archive_invalid` as soon as the first bytes show that the stream
 * is neither a tar nor a gzip file.
 */
async function* validateArchive(stream: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let start: Uint8Array | undefined = new Uint8Array(0);
  for await (const chunk of stream) {
    if (start === undefined) {
      yield chunk;
      continue;
    }
    start = Buffer.concat([start, chunk]);
    if (start.length < HEADER_BYTES && !isGzip(start)) continue;
    assertArchive(start);
    yield start;
    start = undefined;
  }
  // A stream that ends before a whole tar header was not checked in the loop, so it is checked here.
  if (start !== undefined) assertArchive(start);
}

function isGzip(start: Uint8Array): boolean {
  return start[0] === 0x1f && start[1] === 0x8b;
}

const otherFormats: readonly (readonly [name: string, magic: string])[] = [
  ["a zip file", "504b0304"],
  ["compressed with zstd", "28b52ffd"],
  ["compressed with xz", "fd377a585a00"],
  ["compressed with bzip2", "425a68"],
];

/**
 * Returns true if the block is a tar header. The parser throws on numbers that are out of range, which random bytes
 * contain.
 */
function isTarHeader(block: Buffer): boolean {
  try {
    return new Header(block, 0).cksumValid;
  } catch {
    return false;
  }
}

function assertArchive(start: Uint8Array): void {
  if (isGzip(start)) return;
  if (start.length >= HEADER_BYTES && isTarHeader(Buffer.from(start))) return;
  const hexadecimal = Buffer.from(start.subarray(0, 8)).toString("hex");
  const what = otherFormats.find(([, magic]) => hexadecimal.startsWith(magic))?.[0];
  const why =
    start.length === 0 ? "the file is empty" : `the file is ${what ?? "of another format"}`;
  throw new BerthError("archive_invalid", `the upload is not a gzipped tar file: ${why}`, {
    hint: "create it with `tar czf app.tar.gz FOLDER`, or use `berth deploy FOLDER`",
  });
}

async function writeAll(file: FileHandle, chunk: Uint8Array): Promise<void> {
  for (let written = 0; written < chunk.length; )
    written += (await file.write(chunk, written, chunk.length - written)).bytesWritten;
}

function diskFullError(cause: unknown): BerthError {
  return new BerthError("disk_full", "there is no space left for the archive", {
    hint: "free some space on the disk of the data directory",
    cause,
  });
}
