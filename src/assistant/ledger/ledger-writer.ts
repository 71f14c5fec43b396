import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync } from "node:fs";
import { migrate, openDatabase, type SqliteDatabase } from "../../base/sqlite.ts";
import { faultDescriptions, openCheckpoint, signCheckpoint } from "./checkpoint.ts";
import { readFileIfExists, replaceFileDurably } from "./durable-file.ts";
import {
  computeCommitment,
  type DraftEntry,
  FIRST_ENTRY_PREV,
  formatBody,
  SALT_BYTES,
} from "./ledger-entry.ts";
import { LedgerFailure } from "./ledger-failure.ts";
import type { LedgerPaths } from "./ledger-paths.ts";
import { ledgerMigrations } from "./ledger-schema.ts";
import { TILE_HEIGHT } from "./merkle-proof.ts";
import { emptyRoot, hashLeaf } from "./merkle-tree.ts";
import type { Receipt } from "./port.ts";
import type { NoteSigner } from "./signed-note.ts";
import { loadOrCreateSigner } from "./signing-key.ts";
import { checkAgainstCheckpoint, checkTail, type TailState } from "./tail-check.ts";
import { prepareWriterStatements, type WriterStatements } from "./writer-statements.ts";

/** Old checkpoints bracket a history that was rewritten: an inquiry narrows it down to this many entries. */
const CHECKPOINT_DISTANCE = 1_024;
/**
 * Bytes in the write-ahead log before it is moved into the database, which takes two flushes: rare
 * enough to stay out of the 99th percentile, and small enough for the reserve.
 */
const WAL_BYTES_MAX = 8 * 1024 * 1024;
/** Pages that each commit writes anew beside its entries: edges of trees, checkpoint, frame headers. */
const COMMIT_BYTES = 7 * 4_096;

/**
 * The one connection that writes. Everything here is synchronous and runs in the writer's thread. After
 * any exception the connection is not to be trusted: close it, and open another.
 */
export class LedgerWriter {
  readonly #files: LedgerPaths;
  readonly #db: SqliteDatabase;
  readonly #signer: NoteSigner;
  readonly #statements: WriterStatements;
  #tail: TailState;
  #walBytes = 0;
  #mustTruncate = false;
  /** False where the checkpoint beside the database was gone when it was opened. */
  readonly hadCheckpoint: boolean;

  static makeFolder(files: LedgerPaths): void {
    mkdirSync(files.dir, { recursive: true, mode: 0o700 });
  }

  /**
   * Opens or makes the ledger, moves the write-ahead log into the database, and checks the end of the
   * log. The log is moved because a flush that failed may have left pages that look written and are
   * not; written again, they are. Throws.
   */
  static open(files: LedgerPaths): LedgerWriter {
    const seen = readFileIfExists(files.checkpoint);
    const isNew = seen === undefined && !existsSync(files.db);
    const signer = loadOrCreateSigner(files, isNew);
    // Before the first entry, so that it is never missing where there are entries.
    if (isNew) replaceFileDurably(files.checkpoint, signCheckpoint(0, emptyRoot, signer), 0o600);
    const db = openDatabase({ file: files.db, durability: "full" });
    try {
      prepareDatabase(db);
      const tail = checkTail(db, signer.verifier);
      if (seen !== undefined) {
        const opened = openCheckpoint(seen, signer.verifier);
        if (opened.fault !== undefined)
          throw new LedgerFailure(
            opened.fault === "unknown" ? "key" : "tampered",
            `the checkpoint beside the ledger ${faultDescriptions[opened.fault]}`,
            { hint: "run `berth ledger verify`; move the file `checkpoint` away to go on" },
          );
        checkAgainstCheckpoint(db, tail.edge.size, opened);
      }
      return new LedgerWriter(files, db, signer, tail, isNew || seen !== undefined);
    } catch (error) {
      db.close();
      throw error;
    }
  }

  private constructor(
    files: LedgerPaths,
    db: SqliteDatabase,
    signer: NoteSigner,
    tail: TailState,
    hadCheckpoint: boolean,
  ) {
    this.#files = files;
    this.#db = db;
    this.#signer = signer;
    this.#tail = tail;
    this.#statements = prepareWriterStatements(db);
    this.hadCheckpoint = hadCheckpoint;
  }

  get size(): number {
    return this.#tail.edge.size;
  }

  /** The public key, as `NAME+HASH+BASE64`. */
  get verifierKey(): string {
    return this.#signer.verifier.text;
  }

  /** The leaf of an entry, in hexadecimal; undefined where there is none. */
  readLeaf(seq: number): string | undefined {
    return this.#statements.findLeaf.get(seq)?.toString("hex");
  }

  hasSealed(seq: number): boolean {
    return this.#statements.hasSealed.get(seq) !== undefined;
  }

  /** Dispatch entries without a result. */
  listOpenDispatches(): number[] {
    return this.#statements.openDispatches.all();
  }

  /** One commit with one flush. When it returns, all of it is on the disk, under a signed checkpoint. */
  append(drafts: readonly DraftEntry[], eraseSeq?: number): Receipt[] {
    const edge = this.#tail.edge.copy();
    const receipts: Receipt[] = [];
    let {
      lastLeaf: prev,
      newestCheckpointSize: newest,
      previousCheckpointSize: before,
    } = this.#tail;
    let bytes = COMMIT_BYTES;
    const salts = randomBytes(SALT_BYTES * drafts.length);
    this.#statements.begin.run();
    try {
      for (const [index, draft] of drafts.entries()) {
        const seq = edge.size;
        const salt = salts.subarray(index * SALT_BYTES, (index + 1) * SALT_BYTES);
        const commitment = this.#seal(seq, draft.sealed, salt);
        const body = formatBody(draft, {
          seq,
          prev: seq === 0 ? FIRST_ENTRY_PREV : prev,
          commitment,
        });
        const leaf = hashLeaf(body);
        this.#statements.addEntry.run(seq, body, leaf);
        edge.add(leaf, (height, at, hash) => {
          if (height % TILE_HEIGHT === 0)
            this.#statements.addNode.run(height / TILE_HEIGHT, at, hash);
        });
        if (draft.name.endsWith(".dispatch")) this.#statements.addDispatch.run(seq);
        if (draft.dispatch !== undefined) this.#statements.endDispatch.run(draft.dispatch);
        prev = leaf.toString("hex");
        receipts.push({ seq, leaf: prev });
        bytes += 2 * (body.length + (draft.sealed?.length ?? 0));
      }
      if (eraseSeq !== undefined) this.#statements.erase.run(eraseSeq);
      if (newest - before < CHECKPOINT_DISTANCE) this.#statements.dropCheckpoint.run(newest);
      else before = newest;
      newest = edge.size;
      this.#statements.addCheckpoint.run(newest, signCheckpoint(newest, edge.root(), this.#signer));
      this.#statements.commit.run();
    } catch (error) {
      if (this.#db.inTransaction) this.#statements.rollback.run();
      throw error;
    }
    this.#tail = {
      edge,
      lastLeaf: prev,
      newestCheckpointSize: newest,
      previousCheckpointSize: before,
    };
    this.#walBytes += bytes;
    return receipts;
  }

  #seal(seq: number, sealed: string | undefined, salt: Buffer): string | undefined {
    if (sealed === undefined) return undefined;
    this.#statements.addSealed.run(seq, salt, sealed);
    return computeCommitment(salt, sealed);
  }

  /** Removes the sealed text of an entry for good, and says so in a new entry. */
  erase(seq: number, draft: DraftEntry): Receipt {
    const [receipt] = this.append([draft], seq);
    assert(receipt);
    this.#mustTruncate = true;
    this.#tryTruncate();
    return receipt;
  }

  /** Writes the newest checkpoint beside the database, flushed. Returns it. */
  saveCheckpoint(): string {
    const note =
      this.#statements.newestCheckpoint.get() ?? signCheckpoint(0, emptyRoot, this.#signer);
    if (readFileIfExists(this.#files.checkpoint) !== note)
      replaceFileDurably(this.#files.checkpoint, note, 0o600);
    return note;
  }

  /** Erased texts stand in the write-ahead log until it could be cut. */
  get needsMaintenance(): boolean {
    return this.#mustTruncate;
  }

  /** What is better done while nobody waits: to be called after answers are out. */
  runMaintenance(): void {
    if (this.#mustTruncate) this.#tryTruncate();
    if (this.#walBytes < WAL_BYTES_MAX) return;
    this.#db.pragma("wal_checkpoint(PASSIVE)");
    this.#walBytes = 0;
  }

  /** Without waiting: a reader that is in the way would hold up every append. */
  #tryTruncate(): void {
    const waitMs = Number(this.#db.pragma("busy_timeout", { simple: true }));
    this.#db.pragma("busy_timeout = 0");
    try {
      if (!truncateWal(this.#db)) return;
      this.#mustTruncate = false;
      this.#walBytes = 0;
    } finally {
      this.#db.pragma(`busy_timeout = ${waitMs}`);
    }
  }

  close(): void {
    this.#db.close();
  }
}

function prepareDatabase(db: SqliteDatabase): void {
  migrate(db, ledgerMigrations);
  // What is erased is overwritten, not just unlinked.
  db.pragma("secure_delete = ON");
  assert.equal(db.pragma("secure_delete", { simple: true }), 1);
  // Its errors would be lost inside COMMIT.
  db.pragma("wal_autocheckpoint = 0");
  if (!truncateWal(db))
    throw new LedgerFailure("io", "a reader keeps the ledger's write-ahead log from being cut", {
      hint: "end the program that has the ledger open",
    });
}

/** False where a reader is in the way for longer than the connection waits. */
function truncateWal(db: SqliteDatabase): boolean {
  const [row] = db.prepare<[], { busy: number }>("PRAGMA wal_checkpoint(TRUNCATE)").all();
  return row?.busy === 0;
}
