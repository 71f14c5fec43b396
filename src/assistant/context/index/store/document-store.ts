import { createHash } from "node:crypto";
import type { SqliteDatabase } from "../../../../base/sqlite.ts";
import { extractBigrams, splitCamelCase, splitWords } from "../../../../base/tokenize.ts";
import type { ChunkText } from "../text/chunk.ts";

/** The size and times of a file when it was last scanned. */
export interface FileStat {
  readonly size: number;
  readonly mtimeMs: number;
  readonly ctimeMs: number;
}

export interface StoredDocument extends FileStat {
  readonly id: number;
  readonly path: string;
  readonly indexedMs: number;
  /** The digest of the content; null if the file is recorded but not indexed. */
  readonly sha256: Buffer | null;
}

/** A file to be written to the index. Without chunks, the file is recorded but not indexed. */
export interface NewDocument extends FileStat {
  readonly source: number;
  readonly path: string;
  readonly title: string;
  readonly indexedMs: number;
  readonly sha256: Buffer | undefined;
  readonly chunks: readonly ChunkText[];
}

export interface ChunkChange {
  readonly added: readonly { readonly id: number; readonly source: number }[];
  readonly removed: readonly number[];
}

interface ChunkRow {
  readonly id: number;
  readonly key: string;
  readonly title: string;
  readonly hidden: string;
}

/**
 * Reads and writes documents. Methods that write must be called in `inTransaction`, so that the index is consistent
 * after a crash.
 */
export class DocumentStore {
  readonly #db: SqliteDatabase;
  readonly #statements: ReturnType<typeof prepareStatements>;

  constructor(db: SqliteDatabase) {
    this.#db = db;
    this.#statements = prepareStatements(db);
  }

  /** Runs `work` in one transaction. */
  inTransaction<T>(work: () => T): T {
    return this.#db.transaction(work).immediate();
  }

  find(source: number, path: string): StoredDocument | undefined {
    return this.#statements.known.get(source, path);
  }

  /** Returns all documents of a source, or of one folder in it. */
  listBelow(source: number, folder: string): readonly StoredDocument[] {
    if (folder === "") return this.#statements.all.all(source);
    const itself = this.find(source, folder);
    // The documents of a folder are a range of paths, which SQLite searches in its index: `0` is the character after
    // `/`. A fast query matters here, because a burst of changes runs it often.
    const inside = this.#statements.below.all(source, `${folder}/`, `${folder}0`);
    return itself ? [itself, ...inside] : inside;
  }

  touch(id: number, stamp: FileStat, indexedMs: number): void {
    this.#statements.touch.run(stamp.size, stamp.mtimeMs, stamp.ctimeMs, indexedMs, id);
  }

  /**
   * Changes the path of a document. The document keeps its passages, with their ids and vectors. No other document may
   * have the new path. The caller must call `put` afterwards, because the file's name is part of the searchable text.
   */
  move(id: number, path: string): void {
    this.#statements.move.run(path, id);
  }

  /** Writes a document. Passages whose text is unchanged keep their ids and vectors. */
  put(document: NewDocument): ChunkChange {
    const { source, path, size, mtimeMs, ctimeMs, indexedMs } = document;
    const sha256 = document.sha256 ?? null;
    const values = [document.title, size, mtimeMs, ctimeMs, indexedMs, sha256] as const;
    const { id } = this.#statements.put.get(source, path, ...values) ?? {};
    if (id === undefined) throw new Error("the document was not written");
    return this.#putChunks(id, document);
  }

  remove(id: number): ChunkChange {
    const removed = this.#statements.chunks.all(id).map((row) => row.id);
    for (const chunk of removed) this.#removeChunk(chunk);
    this.#statements.remove.run(id);
    return { added: [], removed };
  }

  #putChunks(document: number, { source, path, chunks }: NewDocument): ChunkChange {
    const old = new Map<string, ChunkRow>(
      this.#statements.chunks.all(document).map((row) => [row.key, row]),
    );
    const added: { id: number; source: number }[] = [];
    const seen = new Map<string, number>();
    const name = path.slice(path.lastIndexOf("/") + 1);
    const fresh: { key: string; place: number; chunk: ChunkText }[] = [];
    for (const [place, chunk] of chunks.entries()) {
      const repeated = seen.get(chunk.text) ?? 0;
      seen.set(chunk.text, repeated + 1);
      const key = computeChunkKey(document, chunk.text, repeated);
      const kept = old.get(key);
      if (kept) {
        this.#updateChunk(kept, place, chunk, name);
        old.delete(key);
      } else fresh.push({ key, place, chunk });
    }
    const removed = Array.from(old.values(), (row) => row.id);
    for (const id of removed) this.#removeChunk(id);
    for (const { key, place, chunk } of fresh) {
      const id = Number(
        this.#statements.addChunk.run(document, source, place, key).lastInsertRowid,
      );
      this.#addText(id, chunk, hiddenWords(chunk.text, name));
      added.push({ id, source });
    }
    return { added, removed };
  }

  /** Updates a passage whose text is unchanged but whose position or title may have changed. */
  #updateChunk(row: ChunkRow, place: number, chunk: ChunkText, name: string): void {
    this.#statements.place.run(place, row.id);
    const hidden = hiddenWords(chunk.text, name);
    if (row.title === chunk.title && row.hidden === hidden) return;
    this.#removeText(row.id);
    this.#addText(row.id, chunk, hidden);
  }

  #addText(id: number, { title, text }: ChunkText, hidden: string): void {
    this.#statements.addPassage.run(id, title, text, hidden);
    this.#statements.addWords.run(id, title, text, hidden);
  }

  #removeText(id: number): void {
    // The full-text index needs the old text to delete its words, so it is updated before the text is deleted.
    this.#statements.removeWords.run(id);
    this.#statements.removePassage.run(id);
  }

  #removeChunk(id: number): void {
    this.#removeText(id);
    this.#statements.removeVectors.run(id);
    this.#statements.removeChunk.run(id);
  }
}

/**
 * Computes the key of a passage from its text and its document, so that a passage that moves within the document
 * keeps its key.
 */
function computeChunkKey(document: number, text: string, repeated: number): string {
  const hash = createHash("sha256").update(`${document}\0${repeated}\0`).update(text);
  return hash.digest("base64url").slice(0, 22);
}

/**
 * Returns words that FTS5 does not find in the text itself. They are stored in a separate column: the words of the
 * file's name, the parts of camel-case names, and pairs of characters of scripts without spaces.
 */
function hiddenWords(text: string, name: string): string {
  const found = new Set(splitWords(name));
  for (const word of splitWords(text))
    for (const part of splitCamelCase(word)) if (part.length > 1) found.add(part);
  return [...found, ...extractBigrams(text)].join(" ");
}

function prepareStatements(db: SqliteDatabase) {
  const columns = `id, path, size, mtime_ms AS mtimeMs, ctime_ms AS ctimeMs,
    indexed_ms AS indexedMs, sha256`;
  return {
    known: db.prepare<[number, string], StoredDocument>(
      `SELECT ${columns} FROM document WHERE source = ? AND path = ?`,
    ),
    all: db.prepare<[number], StoredDocument>(`SELECT ${columns} FROM document WHERE source = ?`),
    below: db.prepare<[number, string, string], StoredDocument>(
      `SELECT ${columns} FROM document WHERE source = ? AND path > ? AND path < ?`,
    ),
    touch: db.prepare(
      "UPDATE document SET size = ?, mtime_ms = ?, ctime_ms = ?, indexed_ms = ? WHERE id = ?",
    ),
    move: db.prepare("UPDATE document SET path = ? WHERE id = ?"),
    put: db.prepare<
      [number, string, string, number, number, number, number, Buffer | null],
      { id: number }
    >(
      `INSERT INTO document (source, path, title, size, mtime_ms, ctime_ms, indexed_ms, sha256)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT (source, path) DO UPDATE SET title = excluded.title, size = excluded.size,
         mtime_ms = excluded.mtime_ms, ctime_ms = excluded.ctime_ms,
         indexed_ms = excluded.indexed_ms, sha256 = excluded.sha256
       RETURNING id`,
    ),
    remove: db.prepare("DELETE FROM document WHERE id = ?"),
    chunks: db.prepare<[number], ChunkRow>(
      `SELECT c.id, c.key, p.title, p.hidden FROM chunk c JOIN passage p ON p.id = c.id
       WHERE c.document = ? ORDER BY c.place`,
    ),
    place: db.prepare("UPDATE chunk SET place = ? WHERE id = ?"),
    addChunk: db.prepare("INSERT INTO chunk (document, source, place, key) VALUES (?, ?, ?, ?)"),
    addPassage: db.prepare("INSERT INTO passage (id, title, body, hidden) VALUES (?, ?, ?, ?)"),
    addWords: db.prepare(
      "INSERT INTO passage_words (rowid, title, body, hidden) VALUES (?, ?, ?, ?)",
    ),
    removeWords: db.prepare(
      `INSERT INTO passage_words (passage_words, rowid, title, body, hidden)
       SELECT 'delete', id, title, body, hidden FROM passage WHERE id = ?`,
    ),
    removeVectors: db.prepare("DELETE FROM vector WHERE chunk = ?"),
    removePassage: db.prepare("DELETE FROM passage WHERE id = ?"),
    removeChunk: db.prepare("DELETE FROM chunk WHERE id = ?"),
  };
}
