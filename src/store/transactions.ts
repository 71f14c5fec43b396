import { mapSqliteError, type SqliteDatabase } from "../base/sqlite.ts";

const SYNCHRONOUS_FULL = 2;

/**
 * Runs every write of the store. A write inside a write joins it, so that what belongs together is
 * committed together; what SQLite throws leaves as a BerthError.
 */
export class Transactions {
  readonly #db: SqliteDatabase;
  readonly #begin;
  readonly #commit;
  readonly #rollback;
  readonly #onCommit: () => void;
  readonly #onRollback: () => void;
  /** Back to full durability after a lazy write; undefined where there is none to go back to. */
  readonly #restoreFullPragma: string | undefined;

  constructor(db: SqliteDatabase, hooks: { onCommit: () => void; onRollback: () => void }) {
    this.#db = db;
    this.#begin = db.prepare("BEGIN IMMEDIATE");
    this.#commit = db.prepare("COMMIT");
    this.#rollback = db.prepare("ROLLBACK");
    this.#onCommit = hooks.onCommit;
    this.#onRollback = hooks.onRollback;
    const isFull = db.pragma("synchronous", { simple: true }) === SYNCHRONOUS_FULL;
    this.#restoreFullPragma = isFull ? "synchronous = FULL" : undefined;
  }

  /** Durable when it returns: desired state, and whatever else nobody could work out again. */
  write<T>(work: () => T): T {
    return this.#run(work);
  }

  /**
   * Survives a crash of the process, but perhaps not a power cut, and so costs no flush to the disk:
   * for what a reconciler finds out anew. The next durable write makes it durable too. Inside a
   * durable write it is part of that one.
   */
  writeLazily<T>(work: () => T): T {
    if (this.#db.inTransaction || this.#restoreFullPragma === undefined) return this.#run(work);
    this.#db.pragma("synchronous = NORMAL");
    try {
      return this.#run(work);
    } finally {
      this.#db.pragma(this.#restoreFullPragma);
    }
  }

  #run<T>(work: () => T): T {
    if (this.#db.inTransaction) return work();
    let result: T;
    try {
      this.#begin.run();
      result = work();
      this.#commit.run();
    } catch (error) {
      // SQLite has rolled back by itself where the disk was full.
      if (this.#db.inTransaction) this.#rollback.run();
      this.#onRollback();
      throw mapSqliteError(error);
    }
    this.#onCommit();
    return result;
  }

  read<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      throw mapSqliteError(error);
    }
  }
}
