import assert from "node:assert/strict";
import { existsSync, mkdirSync } from "node:fs";
import { replaceFileSync } from "../../base/atomic-file.ts";
import { RandomBytes } from "../../base/random-bytes.ts";
import { migrate, openDatabase, type SqliteDatabase } from "../../base/sqlite.ts";
import { faultDescriptions, openCheckpoint, signCheckpoint } from "./checkpoint.ts";
import {
  computeCommitment,
  type DraftEntry,
  draftEntry,
  FIRST_ENTRY_PREV,
  formatBody,
  SALT_BYTES,
} from "./ledger-entry.ts";
import { LedgerFailure } from "./ledger-failure.ts";
import type { LedgerPaths } from "./ledger-paths.ts";
import { ledgerMigrations } from "./ledger-schema.ts";
import { TILE_HEIGHT } from "./merkle-proof.ts";
import { emptyRoot, hashLeaf } from "./merkle-tree.ts";
import { findOldTexts, type OldTexts, type TextRun } from "./old-texts.ts";
import type { Receipt } from "./port.ts";
import { readFileIfExists } from "./read-file-if-exists.ts";
import type { NoteSigner } from "./signed-note.ts";
import { loadOrCreateSigner } from "./signing-key.ts";
import { checkAgainstCheckpoint, checkTail, type TailState } from "./tail-check.ts";
import type { TextKeyPair } from "./text-cipher.ts";
import { type TextKeys, TextStore } from "./text-store.ts";
import { prepareWriterStatements, type WriterStatements } from "./writer-statements.ts";

/**
 * The smallest number of entries between two old checkpoints that are kept. If the history was rewritten, the old
 * checkpoints narrow the change down to this many entries.
 */
const CHECKPOINT_DISTANCE = 1_024;
/**
 * The size of the write-ahead log at which the writer copies it into the database. A copy takes two flushes. At this
 * size copies are rare enough to stay out of the 99th percentile of latency, and the log stays smaller than the disk
 * reserve.
 */
const WAL_BYTES_MAX = 8 * 1024 * 1024;
/** The bytes that each commit writes in addition to its entries: pages of B-trees, the checkpoint, frame headers. */
const COMMIT_BYTES = 7 * 4_096;

export interface OldTextsRequest {
  /** An RFC 3339 time. Only texts of entries that are older than this time are erased. */
  readonly before: string;
  /** The number of the entry after which the search begins; -1 to search all entries. */
  readonly after: number;
  /** The time of the entry that records the erasure. */
  readonly time: string;
}

/** The run of texts that was erased, and the receipt of the entry that records the erasure; see `OldTexts`. */
export interface ErasedRun extends OldTexts {
  readonly receipt: Receipt | undefined;
}

/**
 * The only database connection that writes the ledger. All methods are synchronous and run in the writer's thread.
 * After any exception the connection must be closed and a new one opened.
 */
export class LedgerWriter {
  readonly #files: LedgerPaths;
  readonly #db: SqliteDatabase;
  readonly #signer: NoteSigner;
  readonly #statements: WriterStatements;
  readonly #texts: TextStore;
  readonly #salts = new RandomBytes();
  #tail: TailState;
  #walBytes = 0;
  #mustTruncate = false;
  /** False if the checkpoint file was missing when the ledger was opened. */
  readonly hadCheckpoint: boolean;

  static makeFolder(files: LedgerPaths): void {
    mkdirSync(files.dir, { recursive: true, mode: 0o700 });
  }

  /**
   * Opens or creates the ledger, copies the write-ahead log into the database, and checks the last entries. The copy
   * also writes pages again that an earlier failed flush left only in the operating system's cache. Throws
   * LedgerFailure and errors of SQLite.
   */
  static open(files: LedgerPaths): LedgerWriter {
    const seen = readFileIfExists(files.checkpoint);
    const isNew = seen === undefined && !existsSync(files.db);
    const signer = loadOrCreateSigner(files, isNew);
    // The checkpoint file is created before the first entry, so that a ledger with entries always has one.
    if (isNew) replaceFileSync(files.checkpoint, signCheckpoint(0, emptyRoot, signer));
    const db = openDatabase({ file: files.db, durability: "full" });
    try {
      prepareDatabase(db);
      const tail = checkTail(db, signer.verifier);
      if (seen !== undefined) {
        const opened = openCheckpoint(seen, signer.verifier);
        if (opened.fault !== undefined)
          throw new LedgerFailure(
            opened.fault === "unknown" ? "key" : "tampered",
            `the checkpoint file of the ledger ${faultDescriptions[opened.fault]}`,
            { hint: "run `berth ledger verify`; to continue, move the file `checkpoint` away" },
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
    this.#texts = new TextStore(db);
    this.hadCheckpoint = hadCheckpoint;
  }

  get size(): number {
    return this.#tail.edge.size;
  }

  /** The public key, as `NAME+HASH+BASE64`. */
  get verifierKey(): string {
    return this.#signer.verifier.text;
  }

  /** Returns the leaf hash of an entry in hexadecimal, or undefined if there is no such entry. */
  readLeaf(seq: number): string | undefined {
    return this.#statements.findLeaf.get(seq)?.toString("hex");
  }

  /** Returns the dispatch entries without a result. */
  listOpenDispatches(): number[] {
    return this.#statements.openDispatches.all();
  }

  /**
   * Writes the entries in one commit with one flush. When it returns, they are on the disk, under a signed checkpoint.
   */
  append(drafts: readonly DraftEntry[], erased?: TextRun): Receipt[] {
    const edge = this.#tail.edge.copy();
    const receipts: Receipt[] = [];
    let {
      lastLeaf: prev,
      newestCheckpointSize: newest,
      previousCheckpointSize: before,
    } = this.#tail;
    let bytes = COMMIT_BYTES;
    this.#statements.begin.run();
    try {
      for (const draft of drafts) {
        const seq = edge.size;
        const commitment = this.#seal(seq, draft.sealed);
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
      if (erased) this.#texts.erase(erased.from, erased.to);
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

  #seal(seq: number, sealed: string | undefined): string | undefined {
    if (sealed === undefined) return undefined;
    const salt = this.#salts.take(SALT_BYTES);
    this.#texts.add(seq, salt, sealed);
    return computeCommitment(salt, sealed);
  }

  /**
   * Deletes the next run of sealed texts older than `before` after entry `after`, and records this in a new entry, in
   * the same commit. Appends to the ledger wait meanwhile, so one call examines and deletes a limited number of texts.
   */
  eraseOldTexts({ before, after, time }: OldTextsRequest): ErasedRun {
    const { run, next } = findOldTexts(this.#db, before, after);
    if (!run) return { run, next, receipt: undefined };
    const fields = { before, from: run.from, texts: run.texts, to: run.to };
    const [receipt] = this.append([draftEntry({ name: "ledger.erased", fields }, time)], run);
    this.#mustTruncate = true;
    this.#tryTruncate();
    return { run, next, receipt };
  }

  readTextKeys(): TextKeys & { readonly ledgerId: string } {
    return { ...this.#texts.readKeys(), ledgerId: this.#signer.verifier.name };
  }

  /**
   * Stores the key pair with which new texts are encrypted. Returns false and changes nothing if a stored text needs
   * the present key pair.
   */
  saveTextKeys(pair: TextKeyPair): boolean {
    return this.#db.transaction(() => this.#texts.saveKeyPair(pair)).immediate();
  }

  /**
   * Encrypts some of the texts that are not encrypted yet, in one commit, and overwrites their readable form. Returns
   * the number of these texts, which is 0 if none is left.
   */
  encryptSomeTexts(): number {
    const texts = this.#db.transaction(() => this.#texts.encryptSome()).immediate();
    if (texts === 0) return 0;
    this.#mustTruncate = true;
    this.#tryTruncate();
    return texts;
  }

  /** Writes the newest checkpoint to the checkpoint file, flushes the file and returns the checkpoint. */
  saveCheckpoint(): string {
    const note =
      this.#statements.newestCheckpoint.get() ?? signCheckpoint(0, emptyRoot, this.#signer);
    if (readFileIfExists(this.#files.checkpoint) !== note)
      replaceFileSync(this.#files.checkpoint, note);
    return note;
  }

  /** True while the write-ahead log still contains an erased text, because a reader prevented its truncation. */
  get needsMaintenance(): boolean {
    return this.#mustTruncate;
  }

  /**
   * Truncates the write-ahead log, or copies it into the database, if needed. Call this after the answer was sent,
   * because it takes time.
   */
  runMaintenance(): void {
    if (this.#mustTruncate) this.#tryTruncate();
    if (this.#walBytes < WAL_BYTES_MAX) return;
    this.#db.pragma("wal_checkpoint(PASSIVE)");
    this.#walBytes = 0;
  }

  /**
   * Removes the bytes of erased texts from all files, and waits for readers. Throws LedgerFailure if a reader prevents
   * it for longer than the busy timeout.
   */
  finishErasure(): void {
    if (!this.#mustTruncate || truncateWal(this.#db)) return;
    throw new LedgerFailure(
      "io",
      "the texts were erased, but a program that reads the ledger keeps their bytes in its files",
      { hint: "end that program; the next start of the assistant removes the bytes" },
    );
  }

  /** Truncates the write-ahead log without waiting for readers, because waiting would delay every append. */
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
  // SQLite must overwrite deleted content, so that erased texts do not remain in the file.
  db.pragma("secure_delete = ON");
  assert.equal(db.pragma("secure_delete", { simple: true }), 1);
  // Automatic checkpoints are off, because SQLite does not report errors of a checkpoint inside COMMIT.
  db.pragma("wal_autocheckpoint = 0");
  if (!truncateWal(db))
    throw new LedgerFailure(
      "io",
      "a reader prevents the truncation of the ledger's write-ahead log",
      {
        hint: "end the program that has the ledger open",
      },
    );
}

/**
 * Copies the write-ahead log into the database and truncates it. Returns false if a reader prevents this for longer
 * than the busy timeout.
 */
function truncateWal(db: SqliteDatabase): boolean {
  const [row] = db.prepare<[], { busy: number }>("PRAGMA wal_checkpoint(TRUNCATE)").all();
  return row?.busy === 0;
}
