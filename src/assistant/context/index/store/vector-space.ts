import type { SqliteDatabase } from "../../../../base/sqlite.ts";
import { type PackedVector, packVector, VectorIndex } from "../search/vector-index.ts";

/**
 * The number of passages that one step of a background task scans for missing vectors. One step takes about a
 * millisecond.
 */
const SCANNED_PER_STEP = 4_096;

export interface UnembeddedChunk {
  readonly id: number;
  readonly source: number;
  readonly text: string;
}

interface VectorRow {
  readonly id: number;
  readonly source: number;
  readonly scale: number;
  readonly value: Buffer;
}

/** The vectors of one embedder, in the database and in memory. */
export class VectorSpace {
  /** The number that identifies the vector space in the database. */
  readonly number: number;
  readonly index: VectorIndex;
  readonly #statements: ReturnType<typeof prepareStatements>;
  #scannedTo = 0;

  constructor(db: SqliteDatabase, number: number, dimensions: number) {
    this.number = number;
    this.index = new VectorIndex(dimensions);
    this.#statements = prepareStatements(db);
  }

  /** Loads the stored vectors into memory. Lets other work of the thread run every few milliseconds. */
  *load(): Generator<void> {
    for (let after = 0; ; ) {
      const rows = this.#statements.load.all(this.number, after, SCANNED_PER_STEP);
      for (const { id, source, scale, value } of rows) {
        after = id;
        if (value.length === this.index.dimensions)
          this.index.set(id, source, { scale, value: new Int8Array(value) });
      }
      if (rows.length < SCANNED_PER_STEP) return;
      yield;
    }
  }

  /** Returns some passages that have no vector, or an empty list when all passages have been scanned. */
  *findUnembedded(limit: number): Generator<void, readonly UnembeddedChunk[]> {
    const found: UnembeddedChunk[] = [];
    for (;;) {
      const rows = this.#statements.ids.all(this.#scannedTo, SCANNED_PER_STEP);
      const wanted = limit - found.length;
      const missing = rows.filter((id) => !this.index.has(id)).slice(0, wanted);
      for (const id of missing) {
        const row = this.#statements.text.get(id);
        if (row) found.push(row);
      }
      this.#scannedTo =
        missing.length === wanted
          ? (missing.at(-1) ?? this.#scannedTo)
          : (rows.at(-1) ?? this.#scannedTo);
      if (found.length === limit || rows.length < SCANNED_PER_STEP) return found;
      yield;
    }
  }

  /** Makes `findUnembedded` scan all passages again. */
  restartScan(): void {
    this.#scannedTo = 0;
  }

  /**
   * Adds vectors to the database; call this in a transaction. Vectors of passages that have been deleted are ignored.
   */
  add(id: number, source: number, vector: Float32Array): void {
    const packed: PackedVector = packVector(vector);
    const { buffer, byteOffset, byteLength } = packed.value;
    const value = Buffer.from(buffer, byteOffset, byteLength);
    const { changes } = this.#statements.add.run(this.number, packed.scale, value, id);
    if (changes > 0) this.index.set(id, source, packed);
  }
}

function prepareStatements(db: SqliteDatabase) {
  return {
    load: db.prepare<[number, number, number], VectorRow>(
      `SELECT v.chunk AS id, c.source, v.scale, v.value FROM vector v JOIN chunk c ON c.id = v.chunk
       WHERE v.space = ? AND v.chunk > ? ORDER BY v.chunk LIMIT ?`,
    ),
    ids: db
      .prepare<[number, number], number>("SELECT id FROM chunk WHERE id > ? ORDER BY id LIMIT ?")
      .pluck(),
    text: db.prepare<[number], UnembeddedChunk>(
      `SELECT c.id, c.source, p.title || char(10) || p.title || char(10) || p.body AS text
       FROM chunk c JOIN passage p ON p.id = c.id WHERE c.id = ?`,
    ),
    add: db.prepare<[number, number, Buffer, number]>(
      `INSERT OR REPLACE INTO vector (chunk, space, scale, value)
       SELECT id, ?, ?, ? FROM chunk WHERE id = ?`,
    ),
  };
}
