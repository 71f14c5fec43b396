import type Database from "better-sqlite3";
import type { SqliteDatabase } from "../../base/sqlite.ts";

/** The prepared SQL statements of one writer connection. */
export interface WriterStatements {
  readonly begin: Database.Statement<[]>;
  readonly commit: Database.Statement<[]>;
  readonly rollback: Database.Statement<[]>;
  readonly addEntry: Database.Statement<[seq: number, body: string, leafHash: Buffer]>;
  readonly addNode: Database.Statement<[level: number, index: number, hash: Buffer]>;
  readonly addCheckpoint: Database.Statement<[size: number, note: string]>;
  readonly dropCheckpoint: Database.Statement<[number]>;
  readonly newestCheckpoint: Database.Statement<[], string>;
  readonly addDispatch: Database.Statement<[number]>;
  readonly endDispatch: Database.Statement<[number]>;
  readonly openDispatches: Database.Statement<[], number>;
  readonly findLeaf: Database.Statement<[number], Buffer>;
}

export function prepareWriterStatements(db: SqliteDatabase): WriterStatements {
  return {
    // BEGIN IMMEDIATE takes the write lock at once, so that a conflict with another writer fails the whole batch
    // instead of one insert.
    begin: db.prepare("BEGIN IMMEDIATE"),
    commit: db.prepare("COMMIT"),
    rollback: db.prepare("ROLLBACK"),
    addEntry: db.prepare("INSERT INTO entry (seq, body, leaf) VALUES (?, ?, ?)"),
    addNode: db.prepare("INSERT INTO node (level, ix, hash) VALUES (?, ?, ?)"),
    addCheckpoint: db.prepare("INSERT INTO checkpoint (size, note) VALUES (?, ?)"),
    dropCheckpoint: db.prepare("DELETE FROM checkpoint WHERE size = ?"),
    newestCheckpoint: db
      .prepare<[], string>("SELECT note FROM checkpoint ORDER BY size DESC LIMIT 1")
      .pluck(),
    addDispatch: db.prepare("INSERT INTO open_dispatch (seq) VALUES (?)"),
    endDispatch: db.prepare("DELETE FROM open_dispatch WHERE seq = ?"),
    openDispatches: db.prepare<[], number>("SELECT seq FROM open_dispatch ORDER BY seq").pluck(),
    findLeaf: db.prepare<[number], Buffer>("SELECT leaf FROM entry WHERE seq = ?").pluck(),
  };
}
