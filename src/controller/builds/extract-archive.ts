import { createReadStream } from "node:fs";
import { type FileHandle, mkdir, open, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import { BerthError } from "../../base/errors.ts";
import { formatBytes } from "../../base/units.ts";
import { ArchiveTree, type ExtractLimits } from "./archive-tree.ts";
import { type ArchiveEntry, damagedArchiveError, readArchiveEntries } from "./extract-entries.ts";
import { refusedEntryError } from "./extract-paths.ts";
import { ExtractTarget } from "./extract-target.ts";

export interface ExtractedArchive {
  /** The folder to build: `dir`, or its only entry if that is a folder. */
  readonly root: string;
  readonly files: number;
  readonly bytes: number;
}

/**
 * The number of bytes that each file may add to the tar in addition to its content: a header,
 * attributes and padding.
 */
const OVERHEAD_BYTES_EACH = 4096;
/** The number of bytes that the end-of-archive blocks and the padding to tar's record size may add to the tar. */
const OVERHEAD_BYTES = 1024 * 1024;

/**
 * Unpacks a gzipped or plain tar archive into `dir`, which must be empty or missing. Refuses devices, pipes, entries
 * outside of `dir`, and anything over a limit. After a failure or an abort, `dir` is removed. The error is
 * `disk_full`, or `archive_invalid` with the entry and the reason. Owners, times, and setuid, setgid and sticky bits
 * are not kept.
 */
export async function extractArchive(
  file: string,
  dir: string,
  limits: ExtractLimits,
  signal: AbortSignal,
): Promise<ExtractedArchive> {
  signal.throwIfAborted();
  await mkdir(dir, { recursive: true, mode: 0o700 });
  if ((await readdir(dir)).length > 0)
    throw new BerthError("internal", "an archive must be unpacked into an empty folder");
  try {
    const tree = new ArchiveTree(limits);
    const target = new ExtractTarget(dir, tree);
    await readTree(file, tree, (entry) => target.write(entry), signal);
    return { root: await findRoot(dir), files: tree.files, bytes: tree.bytes };
  } catch (error) {
    await rm(dir, { recursive: true, force: true });
    signal.throwIfAborted();
    throw toArchiveError(error);
  }
}

/**
 * Reads an archive to its end without unpacking it. Throws `archive_invalid` if `extractArchive` would refuse the
 * archive.
 */
export async function checkArchive(
  file: string,
  limits: ExtractLimits,
  signal: AbortSignal,
): Promise<void> {
  try {
    const tree = new ArchiveTree(limits);
    await readTree(file, tree, (entry) => void tree.add(entry), signal);
  } catch (error) {
    signal.throwIfAborted();
    throw toArchiveError(error);
  }
}

/** Calls `onEntry` for every entry, and then checks that no link leads out of the tree. */
async function readTree(
  file: string,
  tree: ArchiveTree,
  onEntry: (entry: ArchiveEntry) => Promise<void> | void,
  signal: AbortSignal,
): Promise<void> {
  const content = limitBytes(readTar(file), tree.limits, signal);
  try {
    for await (const entry of readArchiveEntries(content)) {
      signal.throwIfAborted();
      await onEntry(entry);
    }
  } finally {
    // Closes the archive file, also after a failure.
    await content.return(undefined);
  }
  tree.checkLinks();
  if (tree.files === 0) throw damagedArchiveError("the archive is empty");
}

/** Yields the bytes of the tar, decompressed if necessary. */
async function* readTar(file: string): AsyncGenerator {
  const start = await readFirstBytes(file);
  const source = createReadStream(file);
  if (start[0] !== 0x1f || start[1] !== 0x8b) {
    yield* source;
    return;
  }
  const output = createGunzip();
  // If `source` cannot be read, `pipeline` destroys `output` with the same error, which `yield*` throws below.
  const read = pipeline(source, output).catch(() => {});
  yield* output;
  await read;
}

async function readFirstBytes(file: string): Promise<Buffer> {
  const handle: FileHandle = await open(file, "r");
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(2), 0, 2, 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await handle.close();
  }
}

/** Limits the decompressed bytes, regardless of the sizes in the archive's headers. */
async function* limitBytes(
  source: AsyncIterable<unknown>,
  limits: ExtractLimits,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  const bytesMax = limits.bytesMax + limits.filesMax * OVERHEAD_BYTES_EACH + OVERHEAD_BYTES;
  let bytes = 0;
  for await (const chunk of source) {
    signal.throwIfAborted();
    if (!Buffer.isBuffer(chunk))
      throw new TypeError("a byte stream returned a chunk of another type");
    bytes += chunk.length;
    if (bytes > bytesMax)
      throw damagedArchiveError(`the archive contains more than ${formatBytes(limits.bytesMax)}`);
    yield chunk;
  }
}

/** Matches the files that macOS adds to archives. */
const macFile = /^(\._.*|\.DS_Store)$/;

async function findRoot(dir: string): Promise<string> {
  const entries = await readdir(dir, { withFileTypes: true });
  const [only, ...others] = entries.filter(({ name }) => !macFile.test(name));
  return only?.isDirectory() === true && others.length === 0 ? join(dir, only.name) : dir;
}

function toArchiveError(error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof BerthError || !("code" in error)) return error;
  const { code } = error;
  if (code === "ENOSPC" || code === "EDQUOT")
    return new BerthError("disk_full", "there is no space left to unpack the archive", {
      hint: "free some space on the disk of the data directory",
      cause: error,
    });
  if (code === "Z_BUF_ERROR") return damagedArchiveError("the archive is truncated", error);
  if (typeof code === "string" && code.startsWith("Z_"))
    return damagedArchiveError("the compressed data is damaged", error);
  if (code === "ENAMETOOLONG")
    return refusedEntryError("an entry", "the path is too long for this machine");
  return error;
}
