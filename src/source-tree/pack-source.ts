import type { FileHandle } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { Header, Pax } from "tar";
import { BerthError } from "../base/errors.ts";
import { type SourceEntry, type SourceTree, unreadableError } from "./list-source.ts";
import { changedError, openInside } from "./open-inside.ts";

export interface PackOptions {
  /** Compresses the archive, for transfers over the network. Default: false. */
  readonly gzip?: boolean;
  /** Additional files by path, such as a generated Dockerfile; they replace files of the folder with the same path. */
  readonly added?: ReadonlyMap<string, string>;
  /**
   * The modification time of every file, in milliseconds since the epoch; default: 0. An image needs the time of its
   * build, because web servers compare this time and the file's length to detect if a browser has the current version.
   */
  readonly mtimeMs?: number;
  /** Called with the number of content bytes read so far; the total is `tree.bytes`. */
  readonly onBytes?: (bytes: number) => void;
}

/** The size of one read, which keeps the use of memory independent of the size of the files. */
const CHUNK_BYTES = 64 * 1024;
const BLOCK_BYTES = 512;

/**
 * Packs a listed folder into a tar archive. Folders with equal content give equal bytes. Reading starts with the first
 * request for bytes, and fails if a file cannot be read (`invalid_request`), if a file's size has changed since it was
 * listed (`conflict`), or with the reason of `signal` after an abort.
 */
export function packSource(
  tree: SourceTree,
  options: PackOptions,
  signal: AbortSignal,
): AsyncIterable<Buffer> {
  const archive = createArchive(tree, options, signal);
  return options.gzip === true ? compress(archive) : archive;
}

async function* compress(archive: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const packed = createGzip();
  // A failure of the archive destroys `packed` with the same error, which `yield*` throws below.
  const written = pipeline(archive, packed).catch(() => {});
  yield* packed;
  await written;
}

async function* createArchive(
  tree: SourceTree,
  options: PackOptions,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  const added = options.added ?? new Map<string, string>();
  // A fixed owner and a fixed time make the archive's bytes independent of the machine.
  const common = { uid: 0, gid: 0, mtime: new Date(options.mtimeMs ?? 0) };
  let bytes = 0;
  for (const entry of tree.entries) {
    signal.throwIfAborted();
    if (added.has(entry.path)) continue;
    yield* createHeaders(entry, common);
    if (entry.type !== "file") continue;
    for await (const chunk of readContent(tree.dir, entry, signal)) {
      bytes += chunk.length;
      yield chunk;
      options.onBytes?.(bytes);
    }
    yield createPadding(entry.size);
  }
  for (const [path, text] of added) {
    const content = Buffer.from(text);
    yield* createHeaders({ path, type: "file", mode: 0o644, size: content.length }, common);
    yield content;
    yield createPadding(content.length);
  }
  yield Buffer.alloc(2 * BLOCK_BYTES);
}

const tarEntryTypes = { file: "File", dir: "Directory", symlink: "SymbolicLink" } as const;

interface CommonHeader {
  readonly uid: number;
  readonly gid: number;
  readonly mtime: Date;
}

function* createHeaders(entry: SourceEntry, common: CommonHeader): Generator<Buffer> {
  const path = entry.type === "dir" ? `${entry.path}/` : entry.path;
  const fields = {
    ...common,
    path,
    type: tarEntryTypes[entry.type],
    mode: entry.mode,
    size: entry.size,
    ...(entry.target === undefined ? {} : { linkpath: entry.target }),
  };
  const block = Buffer.alloc(BLOCK_BYTES);
  const isTooLong = new Header(fields).encode(block, 0);
  if (isTooLong) {
    const { target: linkpath, size } = entry;
    yield new Pax({
      ...common,
      path,
      size,
      ...(linkpath === undefined ? {} : { linkpath }),
    }).encode();
  }
  yield block;
}

/**
 * Yields the bytes of one file. Throws if a link has replaced the file, or a folder around it, since it was listed.
 */
export async function* readContent(
  dir: string,
  entry: SourceEntry,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  const file = await openInside(dir, entry.path).catch((error: unknown) => {
    throw error instanceof BerthError ? error : unreadableError(entry.path, error);
  });
  try {
    let left = entry.size;
    while (left > 0) {
      signal.throwIfAborted();
      const chunk = await read(file, entry.path, Math.min(left, CHUNK_BYTES));
      if (chunk.length === 0) throw changedError(entry.path);
      left -= chunk.length;
      yield chunk;
    }
    if ((await read(file, entry.path, 1)).length > 0) throw changedError(entry.path);
  } finally {
    await file.close();
  }
}

async function read(file: FileHandle, path: string, length: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file
    .read(Buffer.allocUnsafe(length), 0, length)
    .catch((error: unknown) => {
      throw unreadableError(path, error);
    });
  return buffer.subarray(0, bytesRead);
}

function createPadding(size: number): Buffer {
  return Buffer.alloc((BLOCK_BYTES - (size % BLOCK_BYTES)) % BLOCK_BYTES);
}
