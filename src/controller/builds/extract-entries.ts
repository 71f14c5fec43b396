import { Header } from "tar";
import { BerthError } from "../../base/errors.ts";
import { trimEndOf } from "../../base/trim-end-of.ts";

/**
 * An entry of a tar archive, with the fields as they are in the archive. `body` must be read to its end, or not at all,
 * before the next entry.
 */
export interface ArchiveEntry {
  readonly path: string;
  readonly type: "file" | "dir" | "symlink" | "hardlink" | "device" | "pipe" | "unknown";
  readonly mode: number | undefined;
  readonly size: number;
  readonly target: string;
  readonly body: AsyncIterable<Buffer>;
}

const BLOCK_BYTES = 512;
/**
 * The size limit for a long name or the attributes of a file. The largest attributes in use are the resource forks of
 * macOS.
 */
const META_BYTES_MAX = 1024 * 1024;

const types: Readonly<Record<string, ArchiveEntry["type"]>> = {
  File: "file",
  OldFile: "file",
  ContiguousFile: "file",
  Directory: "dir",
  GNUDumpDir: "dir",
  SymbolicLink: "symlink",
  Link: "hardlink",
  CharacterDevice: "device",
  BlockDevice: "device",
  FIFO: "pipe",
};
const longNames = ["NextFileHasLongPath", "OldGnuLongPath"];
const extendedHeaders = ["ExtendedHeader", "OldExtendedHeader"];

/** Attributes that precede an entry in the archive, and override the header of the entry. */
interface Overrides {
  path?: string;
  linkpath?: string;
  size?: number;
}

/**
 * Reads a tar stream entry by entry. Nothing is read ahead, so that memory does not grow with the archive, and a
 * refused entry ends the reading at once. (The parser of `tar` queues all entries of a chunk; only its decoder of
 * header blocks is used here.) Throws `archive_invalid` if the stream is not a tar archive, or is damaged or truncated.
 */
export async function* readArchiveEntries(
  source: AsyncIterable<Buffer>,
): AsyncGenerator<ArchiveEntry> {
  const bytes = new ByteReader(source);
  let next: Overrides = {};
  for (let block = await bytes.take(BLOCK_BYTES); ; block = await bytes.take(BLOCK_BYTES)) {
    if (isZero(block)) return await readEnd(bytes);
    const header = readHeader(block, next);
    const type = header.type;
    const size = next.size ?? header.size ?? 0;
    if (longNames.includes(type)) next.path = decodeMetadata(await readMetadata(bytes, size));
    else if (type === "NextFileHasLongLinkpath")
      next.linkpath = decodeMetadata(await readMetadata(bytes, size));
    else if (extendedHeaders.includes(type))
      next = { ...next, ...readPax(await readMetadata(bytes, size)) };
    else if (type === "GlobalExtendedHeader") await readMetadata(bytes, size);
    else {
      const kind = types[type] ?? "unknown";
      // Only a regular file has content. The size in the header of any other entry is ignored.
      const bodySize = kind === "file" ? size : 0;
      const body = bytes.body(bodySize);
      yield {
        path: next.path ?? header.path ?? "",
        type: kind,
        mode: header.mode,
        size: bodySize,
        target: next.linkpath ?? header.linkpath ?? "",
        body,
      };
      for await (const _ of body);
      await bytes.take(paddingBytes(bodySize));
      next = {};
    }
  }
}

/** Reads the tar stream from its second zero block to its end, because gzip data has its checksum there. */
async function readEnd(bytes: ByteReader): Promise<void> {
  const second = await bytes.takeUpTo(BLOCK_BYTES);
  if (!isZero(second)) throw damagedArchiveError("there is data after the end of the archive");
  await bytes.drain();
}

async function readMetadata(bytes: ByteReader, size: number): Promise<Buffer> {
  if (size > META_BYTES_MAX) throw damagedArchiveError("the attributes of a file are too long");
  const meta = await bytes.take(size);
  await bytes.take(paddingBytes(size));
  return meta;
}

/**
 * Parses the records of a pax header, each of the form `LENGTH KEY=VALUE\n`. (The parser of `tar` splits at newlines
 * and loses names that contain a newline: Berth would check another name than the one that other programs unpack.)
 */
function readPax(meta: Buffer): Overrides {
  const found: Overrides = {};
  let at = 0;
  while (at < meta.length) {
    const space = meta.indexOf(0x20, at);
    const length = Number(meta.toString("latin1", at, space));
    if (
      space === -1 ||
      !Number.isInteger(length) ||
      length <= space - at ||
      at + length > meta.length
    )
      throw damagedArchiveError("the attributes of a file are malformed");
    const record = meta.toString("utf8", space + 1, at + length - 1);
    const equals = record.indexOf("=");
    const [key, value] = [record.slice(0, equals), record.slice(equals + 1)];
    if (key === "path" || key === "linkpath") found[key] = value;
    else if (key === "size") {
      if (!/^\d{1,15}$/.test(value))
        throw damagedArchiveError("the length of a file is not a number");
      found.size = Number(value);
    } else if (key.startsWith("GNU.sparse."))
      throw damagedArchiveError(
        "sparse files are not supported; create the archive without tar's --sparse",
      );
    at += length;
  }
  return found;
}

function readHeader(block: Buffer, overrides: Overrides): Header {
  let header: Header;
  try {
    header = new Header(block, 0, overrides);
  } catch (error) {
    throw damagedArchiveError("a number in a header is out of range", error);
  }
  if (!header.cksumValid) throw damagedArchiveError("an entry has an invalid tar header");
  return header;
}

function decodeMetadata(meta: Buffer): string {
  return trimEndOf(meta.toString("utf8"), "\0");
}

function paddingBytes(size: number): number {
  return (BLOCK_BYTES - (size % BLOCK_BYTES)) % BLOCK_BYTES;
}

function isZero(block: Buffer): boolean {
  return block.every((byte) => byte === 0);
}

export function damagedArchiveError(why: string, cause?: unknown): BerthError {
  return new BerthError("archive_invalid", `the archive cannot be read: ${why}`, {
    hint: "create it again with `tar czf app.tar.gz FOLDER`, or use `berth deploy FOLDER`",
    cause,
  });
}

/** Reads pieces of given lengths from a stream, and copies only where a piece spans chunks. */
class ByteReader {
  readonly #source: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(source: AsyncIterable<Buffer>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  async take(length: number): Promise<Buffer> {
    const taken = await this.takeUpTo(length);
    if (taken.length < length) throw damagedArchiveError("the archive is truncated");
    return taken;
  }

  /** Returns the given number of bytes, or fewer at the end of the stream. */
  async takeUpTo(length: number): Promise<Buffer> {
    const pieces: Buffer[] = [];
    let missing = length;
    while (missing > 0 && (await this.#fill())) {
      const piece = this.#cut(missing);
      pieces.push(piece);
      missing -= piece.length;
    }
    return pieces.length === 1 ? (pieces[0] ?? Buffer.alloc(0)) : Buffer.concat(pieces);
  }

  async *body(length: number): AsyncGenerator<Buffer> {
    let missing = length;
    while (missing > 0) {
      if (!(await this.#fill())) throw damagedArchiveError("the archive is truncated");
      const piece = this.#cut(missing);
      missing -= piece.length;
      yield piece;
    }
  }

  async drain(): Promise<void> {
    do this.#rest = Buffer.alloc(0);
    while (await this.#fill());
  }

  #cut(length: number): Buffer {
    const piece = this.#rest.subarray(0, length);
    this.#rest = this.#rest.subarray(piece.length);
    return piece;
  }

  async #fill(): Promise<boolean> {
    while (this.#rest.length === 0) {
      const { done, value } = await this.#source.next();
      if (done === true) return false;
      this.#rest = value;
    }
    return true;
  }
}
