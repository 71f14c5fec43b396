import { BODY_BYTES_MAX } from "./ledger-entry.ts";
import { TILE_WIDTH, type TreeHashes } from "./merkle-proof.ts";

/** A file of a log in the layout of C2SP tlog-tiles. The path is relative to the export's folder. */
export interface TileFile {
  readonly path: string;
  readonly bytes: Buffer;
}

/**
 * Returns the path of a tile. The index is split into groups of three digits, one per folder, all but the last with the
 * prefix `x`. A partial tile has the suffix `.p/WIDTH`.
 */
export function tilePath(level: number | "entries", index: number, width: number): string {
  const digits = String(index);
  const padded = digits.padStart(Math.ceil(digits.length / 3) * 3, "0");
  const parts = padded.match(/\d{3}/g) ?? [];
  const name = parts.map((part, at) => (at < parts.length - 1 ? `x${part}` : part)).join("/");
  return `tile/${level}/${name}${width === TILE_WIDTH ? "" : `.p/${width}`}`;
}

/** Yields all tiles with hashes of a tree of this size, including the partial tiles. */
export function* hashTiles(hashes: TreeHashes, size: number): Generator<TileFile> {
  for (let level = 0, width = size; width > 0; level += 1, width = Math.floor(width / TILE_WIDTH)) {
    for (const { index, from, to } of tileRanges(width)) {
      const bytes = Buffer.concat(hashes.read(level, from, to));
      yield { path: tilePath(level, index, to - from), bytes };
    }
  }
}

/** Yields all bundles of entries. In a bundle, the length of each entry precedes the entry as two bytes. */
export function* entryTiles(
  bodies: (from: number, to: number) => readonly string[],
  size: number,
): Generator<TileFile> {
  for (const { index, from, to } of tileRanges(size)) {
    const bytes = Buffer.concat(bodies(from, to).flatMap(prefixWithLength));
    yield { path: tilePath("entries", index, to - from), bytes };
  }
}

function* tileRanges(width: number): Generator<{ index: number; from: number; to: number }> {
  for (let from = 0; from < width; from += TILE_WIDTH)
    yield { index: from / TILE_WIDTH, from, to: Math.min(from + TILE_WIDTH, width) };
}

function prefixWithLength(body: string): Buffer[] {
  const bytes = Buffer.from(body);
  if (bytes.length > BODY_BYTES_MAX) throw new RangeError("an entry is too large for a bundle");
  const length = Buffer.alloc(2);
  length.writeUInt16BE(bytes.length);
  return [length, bytes];
}
