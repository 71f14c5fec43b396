import type { SqliteDatabase } from "../../../base/sqlite.ts";
import type { Meaning } from "./meaning.ts";
import type { Change } from "./sources/reconcile.ts";
import { Documents } from "./store/documents.ts";

/** What one commit holds at most: some ten milliseconds of work, so that a search waits no longer. */
const PASSAGES_A_COMMIT = 120;
const CHANGES_A_COMMIT = 64;

/** Collects changes and writes them in transactions: wherever the process ends, the index is whole. */
export class IndexWriter {
  readonly documents: Documents;
  readonly #db: SqliteDatabase;
  readonly #meaning: Meaning;
  readonly #changes: Change[] = [];
  #passages = 0;
  #hasRemoved = false;

  constructor(db: SqliteDatabase, meaning: Meaning) {
    this.#db = db;
    this.#meaning = meaning;
    this.documents = new Documents(db);
  }

  apply(change: Change): void {
    this.#changes.push(change);
    if (change.type === "put") this.#passages += change.document.chunks.length;
    if (this.#passages >= PASSAGES_A_COMMIT || this.#changes.length >= CHANGES_A_COMMIT)
      this.#commit();
  }

  /** Everything is in the database; of what was removed nothing is left beside it either. */
  flush(): void {
    this.#commit();
    if (!this.#hasRemoved) return;
    this.#hasRemoved = false;
    // The write-ahead log still has the pages as they were.
    this.#db.pragma("wal_checkpoint(TRUNCATE)");
  }

  #commit(): void {
    if (this.#changes.length === 0) return;
    const changes = this.#changes.splice(0);
    this.#passages = 0;
    const added: { id: number; source: number }[] = [];
    const removed: number[] = [];
    this.documents.together(() => {
      const before: string[] = [];
      for (const change of changes) {
        const written = this.#write(change, before);
        added.push(...written.added);
        removed.push(...written.removed);
      }
      if (removed.length > 0) this.#meaning.forget(before);
    });
    if (removed.length > 0) this.#hasRemoved = true;
    this.#meaning.changed({ added, removed });
  }

  #write(change: Change, before: string[]) {
    const { documents } = this;
    if (change.type === "touch") {
      documents.touch(change.document.id, change.file, Date.now());
      return { added: [], removed: [] };
    }
    const old =
      change.type === "remove"
        ? change.document
        : (change.movedFrom ?? documents.known(change.document.source, change.document.path));
    if (old) before.push(...this.#meaning.termsOf(documents.textOf(old.id)));
    if (change.type === "remove") return documents.remove(change.document.id);
    if (change.movedFrom) documents.move(change.movedFrom.id, change.document.path);
    return documents.put(change.document);
  }
}
