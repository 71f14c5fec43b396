import type { SqliteDatabase } from "../../../base/sqlite.ts";
import type { EmbeddingIndex } from "./embedding-index.ts";
import type { IndexChange } from "./sources/sync-source.ts";
import { type ChunkChange, DocumentStore } from "./store/document-store.ts";

/**
 * The maximum numbers of passages and of changes in one commit. A commit of this size takes about ten milliseconds,
 * during which searches wait.
 */
const PASSAGES_PER_COMMIT = 120;
const CHANGES_PER_COMMIT = 64;

/** Collects changes of the index and writes them in transactions, so that the index is consistent after a crash. */
export class IndexWriter {
  readonly documents: DocumentStore;
  readonly #db: SqliteDatabase;
  readonly #embeddings: EmbeddingIndex;
  readonly #changes: IndexChange[] = [];
  #passages = 0;
  #hasRemoved = false;

  constructor(db: SqliteDatabase, embeddings: EmbeddingIndex) {
    this.#db = db;
    this.#embeddings = embeddings;
    this.documents = new DocumentStore(db);
  }

  apply(change: IndexChange): void {
    this.#changes.push(change);
    if (change.type === "put") this.#passages += change.document.chunks.length;
    if (this.#passages >= PASSAGES_PER_COMMIT || this.#changes.length >= CHANGES_PER_COMMIT)
      this.#commit();
  }

  /**
   * Writes all changes. If texts were removed, also truncates the write-ahead log, which still contains the removed
   * texts.
   */
  flush(): void {
    this.#commit();
    if (!this.#hasRemoved) return;
    this.#hasRemoved = false;
    this.#db.pragma("wal_checkpoint(TRUNCATE)");
  }

  #commit(): void {
    if (this.#changes.length === 0) return;
    const changes = this.#changes.splice(0);
    this.#passages = 0;
    const added: { id: number; source: number }[] = [];
    const removed: number[] = [];
    this.documents.inTransaction(() => {
      for (const change of changes) {
        const written = this.#write(change);
        added.push(...written.added);
        removed.push(...written.removed);
      }
    });
    if (removed.length > 0) this.#hasRemoved = true;
    this.#embeddings.onChunksChanged({ added, removed });
  }

  #write(change: IndexChange): ChunkChange {
    const { documents } = this;
    if (change.type === "touch") {
      documents.touch(change.document.id, change.file, Date.now());
      return { added: [], removed: [] };
    }
    if (change.type === "remove") return documents.remove(change.document.id);
    if (change.movedFrom) documents.move(change.movedFrom.id, change.document.path);
    return documents.put(change.document);
  }
}
