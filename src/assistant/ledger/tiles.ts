import { BODY_BYTES_MAX } from "./ledger-entry.ts";
import { TILE_WIDTH, type TreeHashes } from "./merkle-proof.ts";

/** Files of a log in the layout of C2SP tlog-tiles, by their path below the export's folder. */
export interface TileFile {
  readonly path: string;
  readonly bytes: Buffer;
}

/** Path of a tile: three digits a folder, all but the last with `x` before them; `.p/W` where it is not full. */
export function tilePath(level: number | "entries", index: number, width: number): string {
  const digits = String(index);
  const padded = digits.padStart(Math.ceil(digits.length / 3) * 3, "0");
  const parts = padded.match(/\d{3}/g) ?? [];
  const name = parts.map((part, at) => (at < parts.length - 1 ? `x${part}` : part)).join("/");
  return `tile/${level}/${name}${width === TILE_WIDTH ? "" : `.p/${width}`}`;
}

/** Every tile of hashes of a tree of this size, the partial ones on its right edge included. */
export function* hashTiles(hashes: TreeHashes, size: number): Generator<TileFile> {
  for (let level = 0, width = size; width > 0; level += 1, width = Math.floor(width / TILE_WIDTH)) {
    for (const { index, from, to } of tileRanges(width)) {
      const bytes = Buffer.concat(hashes.read(level, from, to));
      yield { path: tilePath(level, index, to - from), bytes };
    }
  }
}

/** Every bundle of entries: each with its length in two bytes before it. */
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
