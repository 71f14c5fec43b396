import { mapSqliteError, type SqliteDatabase } from "../base/sqlite.ts";

const SYNCHRONOUS_FULL = 2;

/**
 * Runs every write of the store in a transaction. A nested write joins the outer one, so that both are committed
 * together. Errors of SQLite are mapped to BerthErrors.
 */
export class Transactions {
  readonly #db: SqliteDatabase;
  readonly #begin;
  readonly #commit;
  readonly #rollback;
  readonly #beginPreview;
  readonly #undoPreview;
  readonly #endPreview;
  readonly #beforeWrite: () => void;
  readonly #onCommit: () => void;
  readonly #onRollback: (changesKept: number) => void;
  readonly #countChanges: () => number;
  /** The SQL that restores full durability after a lazy write; undefined if the store never has full durability. */
  readonly #restoreFullPragma: string | undefined;

  constructor(
    db: SqliteDatabase,
    hooks: {
      beforeWrite: () => void;
      onCommit: () => void;
      /** Called after writes were undone. The first `changesKept` changes of the transaction are still valid. */
      onRollback: (changesKept: number) => void;
      /** Returns the number of changes that the open transaction has recorded. */
      countChanges: () => number;
    },
  ) {
    this.#db = db;
    this.#begin = db.prepare("BEGIN IMMEDIATE");
    this.#commit = db.prepare("COMMIT");
    this.#rollback = db.prepare("ROLLBACK");
    this.#beginPreview = db.prepare("SAVEPOINT preview");
    this.#undoPreview = db.prepare("ROLLBACK TO preview");
    this.#endPreview = db.prepare("RELEASE preview");
    this.#beforeWrite = hooks.beforeWrite;
    this.#onCommit = hooks.onCommit;
    this.#onRollback = hooks.onRollback;
    this.#countChanges = hooks.countChanges;
    const isFull = db.pragma("synchronous", { simple: true }) === SYNCHRONOUS_FULL;
    this.#restoreFullPragma = isFull ? "synchronous = FULL" : undefined;
  }

  /**
   * Runs a transaction that is on the disk when the call returns. Used for desired state, and for data that cannot be
   * computed again.
   */
  write<T>(work: () => T): T {
    return this.#run(work);
  }

  /**
   * Runs a transaction without a flush to the disk. Its writes survive a crash of the process, but possibly not a power
   * cut: use it only for data that reconcilers can compute again. The next durable write flushes these writes too.
   * Inside a durable write, the work becomes part of that transaction.
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

  /** Returns the result of `work`, and undoes its writes. Inside a transaction, undoes only the writes of `work`. */
  preview<T>(work: () => T): T {
    const changesKept = this.#countChanges();
    try {
      this.#beginPreview.run();
      return work();
    } catch (error) {
      throw mapSqliteError(error);
    } finally {
      // If the disk is full, SQLite has already rolled back everything, so there is no savepoint.
      if (this.#db.inTransaction) {
        this.#undoPreview.run();
        this.#endPreview.run();
      }
      this.#onRollback(changesKept);
    }
  }

  #run<T>(work: () => T): T {
    if (this.#db.inTransaction) return work();
    this.#beforeWrite();
    let result: T;
    try {
      this.#begin.run();
      result = work();
      this.#commit.run();
    } catch (error) {
      // If the disk is full, SQLite has already rolled back the transaction, so none is open.
      if (this.#db.inTransaction) this.#rollback.run();
      this.#onRollback(0);
      throw mapSqliteError(error);
    }
    this.#onCommit();
    return result;
  }

  /** True inside a write transaction, which is committed or rolled back as a whole. */
  get isActive(): boolean {
    return this.#db.inTransaction;
  }

  read<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      throw mapSqliteError(error);
    }
  }
}
