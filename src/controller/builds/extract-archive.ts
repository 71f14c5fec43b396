import { createReadStream } from "node:fs";
import { type FileHandle, mkdir, open, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import { BerthError } from "../../base/errors.ts";
import { formatBytes } from "../../base/units.ts";
import { damagedArchiveError, readArchiveEntries } from "./extract-entries.ts";
import { refusedEntryError } from "./extract-paths.ts";
import { type ExtractLimits, ExtractTarget } from "./extract-target.ts";

export interface ExtractedArchive {
  /** The folder to build from: `dir`, or the one folder that is all there is in it. */
  readonly root: string;
  readonly files: number;
  readonly bytes: number;
}

/** A header, the attributes before it and the padding behind its content. */
const OVERHEAD_BYTES_EACH = 4096;
/** The end mark, and padding to the record length of a tape. */
const OVERHEAD_BYTES = 1024 * 1024;

/**
 * Unpacks a gzipped or plain tar archive into `dir`, which is empty or not there. Takes nothing that
 * could reach outside it, no devices and pipes, and nothing over a limit: then, as after any failure
 * and an abort, `dir` is gone, and the error is `archive_invalid`, naming the entry and the reason; or
 * `disk_full`. Owners and times are not kept, nor are setuid, setgid and sticky bits.
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
    throw new BerthError("internal", "an archive is unpacked into an empty folder only");
  try {
    const target = new ExtractTarget(dir, limits);
    const unpacked = await openTar(file, signal);
    try {
      for await (const entry of readArchiveEntries(limitBytes(unpacked, limits))) {
        signal.throwIfAborted();
        await target.write(entry);
      }
    } finally {
      unpacked.destroy();
    }
    await target.checkLinks();
    if (target.files === 0) throw damagedArchiveError("it is empty");
    return { root: await findRoot(dir), files: target.files, bytes: target.bytes };
  } catch (error) {
    await rm(dir, { recursive: true, force: true });
    signal.throwIfAborted();
    throw toArchiveError(error);
  }
}

/** The bytes of the tar itself, whether it is compressed or not. */
async function openTar(file: string, signal: AbortSignal): Promise<Readable> {
  const start = await readFirstBytes(file);
  if (start[0] !== 0x1f || start[1] !== 0x8b) return createReadStream(file, { signal });
  const output = createGunzip();
  // Ends `output` with the error of either; whoever reads it meets that.
  pipeline(createReadStream(file), output, { signal }).catch(() => {});
  return output;
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

/** Whatever the headers say: no more than this comes out of the compression. */
async function* limitBytes(source: Readable, limits: ExtractLimits): AsyncGenerator<Buffer> {
  const bytesMax = limits.bytesMax + limits.filesMax * OVERHEAD_BYTES_EACH + OVERHEAD_BYTES;
  let bytes = 0;
  for await (const chunk of source) {
    if (!Buffer.isBuffer(chunk)) throw new TypeError("a stream of bytes gave something else");
    bytes += chunk.length;
    if (bytes > bytesMax)
      throw damagedArchiveError(`it holds more than ${formatBytes(limits.bytesMax)}`);
    yield chunk;
  }
}

/** A Mac adds its own files beside what it was told to pack. */
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
  if (code === "Z_BUF_ERROR") return damagedArchiveError("it ends in the middle", error);
  if (typeof code === "string" && code.startsWith("Z_"))
    return damagedArchiveError("its compression is damaged", error);
  if (code === "ENAMETOOLONG")
    return refusedEntryError("an entry", "whose path is longer than this machine takes");
  return error;
}
