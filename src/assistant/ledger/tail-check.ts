import type { SqliteDatabase } from "../../base/sqlite.ts";
import { type Checkpoint, faultDescriptions, openCheckpoint } from "./checkpoint.ts";
import { FIRST_ENTRY_PREV, parseBody } from "./ledger-entry.ts";
import { LedgerFailure } from "./ledger-failure.ts";
import { storedHashes, storedSize } from "./ledger-schema.ts";
import { edgeAt, rootAt } from "./merkle-proof.ts";
import { hashLeaf, type TreeEdge } from "./merkle-tree.ts";
import type { NoteVerifier } from "./signed-note.ts";

/**
 * The number of last entries that are hashed again each time the ledger is opened. `berth ledger verify` hashes all
 * entries.
 */
const TAIL_ENTRIES = 256;

export interface TailState {
  readonly edge: TreeEdge;
  /** The leaf hash of the last entry, in hexadecimal. */
  readonly lastLeaf: string;
  /** The number of entries that the newest checkpoint covers; -1 if there is no checkpoint. */
  readonly newestCheckpointSize: number;
  /** The number of entries that the checkpoint before the newest one covers; -1 if there is none. */
  readonly previousCheckpointSize: number;
}

/**
 * Compares the stored entries with the last signed checkpoint in O(log n): computes the root from stored hashes, and
 * hashes the texts of the last entries. Throws LedgerFailure `tampered` or `key`.
 */
export function checkTail(db: SqliteDatabase, verifier: NoteVerifier): TailState {
  const size = storedSize(db);
  const [newest, before] = db
    .prepare<[], { size: number; note: string }>(
      "SELECT size, note FROM checkpoint ORDER BY size DESC LIMIT 2",
    )
    .all();
  if (newest === undefined && size > 0) throw tampered("the ledger has entries but no checkpoint");
  if (newest !== undefined) {
    const opened = openCheckpoint(newest.note, verifier);
    if (opened.fault !== undefined) {
      const words = `the newest checkpoint of the ledger ${faultDescriptions[opened.fault]}`;
      throw opened.fault === "unknown" ? new LedgerFailure("key", words) : tampered(words);
    }
    if (opened.size !== newest.size || opened.size !== size)
      throw tampered(
        `the ledger has ${size} entries, and its newest checkpoint covers ${opened.size}`,
      );
    assertRoot(db, opened);
  }
  return {
    edge: edgeAt(storedHashes(db), size),
    lastLeaf: checkEntries(db, Math.max(0, size - TAIL_ENTRIES), size),
    newestCheckpointSize: newest?.size ?? -1,
    previousCheckpointSize: before?.size ?? -1,
  };
}

function assertRoot(db: SqliteDatabase, checkpoint: Checkpoint): void {
  try {
    if (rootAt(storedHashes(db), checkpoint.size).equals(checkpoint.root)) return;
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
  }
  throw tampered(
    `the stored hashes do not lead to the root that was signed at size ${checkpoint.size}`,
  );
}

function checkEntries(db: SqliteDatabase, from: number, size: number): string {
  const leafOf = db.prepare<[number], Buffer>("SELECT leaf FROM entry WHERE seq = ?").pluck();
  const rows = db
    .prepare<[number], [string, Buffer]>("SELECT body, leaf FROM entry WHERE seq = ?")
    .raw();
  let prev = from === 0 ? FIRST_ENTRY_PREV : (leafOf.get(from - 1)?.toString("hex") ?? "");
  for (let seq = from; seq < size; seq += 1) {
    const [text = "", stored] = rows.get(seq) ?? [];
    const [body, leaf] = [parseBody(text), hashLeaf(text)];
    if (body?.seq !== seq || body.prev !== prev || !stored?.equals(leaf))
      throw tampered(`entry ${seq} is not the entry that was written under this number`);
    prev = leaf.toString("hex");
  }
  return prev;
}

/**
 * Compares the database with a checkpoint that is stored outside the database. Throws LedgerFailure `rolled_back` if
 * the database was replaced by an older copy or by another history.
 */
export function checkAgainstCheckpoint(
  db: SqliteDatabase,
  size: number,
  checkpoint: Checkpoint,
): void {
  if (checkpoint.size > size)
    throw rolledBack(
      `the ledger has ${size} entries, but had ${checkpoint.size} when it was last open`,
    );
  if (!rootAt(storedHashes(db), checkpoint.size).equals(checkpoint.root))
    throw rolledBack(
      `the first ${checkpoint.size} entries differ from those when the ledger was last open`,
    );
}

function tampered(why: string): LedgerFailure {
  return new LedgerFailure("tampered", `the ledger is inconsistent: ${why}`, {
    hint: "run `berth ledger verify`, and keep the files for an investigation",
  });
}

function rolledBack(why: string): LedgerFailure {
  return new LedgerFailure("rolled_back", `the ledger was replaced by another copy: ${why}`, {
    hint: "restore the newest copy, or move the file `checkpoint` away to continue with this copy; the ledger records that",
  });
}
