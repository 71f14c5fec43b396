import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import Database from "better-sqlite3";
import { getErrorCode } from "../../base/errors.ts";
import { readSchemaVersion, type SqliteDatabase } from "../../base/sqlite.ts";
import { type Checkpoint, faultDescriptions, openCheckpoint } from "./checkpoint.ts";
import { type EntryBody, parseBody, SALT_BYTES } from "./ledger-entry.ts";
import { LedgerFailure, toLedgerFailure } from "./ledger-failure.ts";
import { type LedgerPaths, resolveLedgerPaths } from "./ledger-paths.ts";
import { emptyTextTables, ledgerMigrations, storedHashes, storedSize } from "./ledger-schema.ts";
import { proveConsistency, proveInclusion, verifyInclusion } from "./merkle-proof.ts";
import { hashLeaf } from "./merkle-tree.ts";
import { findOldTexts, type OldTexts } from "./old-texts.ts";
import { readFileIfExists } from "./read-file-if-exists.ts";
import { type NoteVerifier, parseVerifier } from "./signed-note.ts";
import { readVerifier } from "./signing-key.ts";
import { type OfflineMasterKey, openTextAccess, type TextAccess } from "./text-access.ts";
import { hasRows, readTextKeyPair } from "./text-store.ts";
import { entryTiles, hashTiles } from "./tiles.ts";
import { type LedgerVerdict, verifyLedger } from "./verify-ledger.ts";

const BUSY_TIMEOUT_MS = 5_000;
/**
 * The schema version of ledgers that were written before Berth encrypted texts. A reader can read such a ledger without
 * migrating it.
 */
const SCHEMA_WITHOUT_ENCRYPTION = 1;

export interface InclusionProof {
  readonly seq: number;
  /** The canonical JSON of the entry. Its leaf hash is `leaf`. */
  readonly body: string;
  readonly leaf: string;
  readonly size: number;
  /** The audit path, from the leaf's sibling upwards. */
  readonly path: readonly Buffer[];
  /** The checkpoint as a signed note. It contains the root to which `path` leads. */
  readonly checkpoint: string;
}

export interface TailEntry {
  readonly body: EntryBody;
  readonly leaf: string;
  /**
   * The plaintext of the entry's sealed text, as JSON; undefined if the entry has none, if it was erased, or if it
   * cannot be decrypted.
   */
  readonly plain: string | undefined;
  /** The reason why an encrypted text cannot be decrypted; undefined for any other entry. */
  readonly lockedBecause: string | undefined;
}

type TailRow = [
  seq: number,
  body: string,
  plain: string | null,
  keyId: number | null,
  box: Buffer | null,
];

/**
 * Reads a ledger without its daemon, even while the daemon writes the ledger. All methods throw LedgerFailure: `io` if
 * the ledger cannot be read, `key` if its public key cannot be used, and `tampered` if a proof cannot be computed.
 */
export class OfflineLedger implements Disposable {
  readonly #db: SqliteDatabase;
  readonly #savedCheckpoint: string | undefined;
  #master: OfflineMasterKey | undefined;
  readonly verifier: NoteVerifier;

  /**
   * Opens the ledger of a state directory. `verifierKey` is a public key that the caller trusts more than the stored
   * key.
   */
  static open(stateDir: string, verifierKey?: string): OfflineLedger {
    const files = resolveLedgerPaths(stateDir);
    return withLedgerFailures(() => {
      // The checkpoint file is read before the database. A running daemon may add entries in between, so the database
      // has at least the entries that the checkpoint covers.
      const saved = readFileIfExists(files.checkpoint);
      const db = openForReading(files);
      try {
        return new OfflineLedger(db, saved, chooseVerifier(files, verifierKey));
      } catch (error) {
        db.close();
        throw error;
      }
    });
  }

  private constructor(db: SqliteDatabase, saved: string | undefined, verifier: NoteVerifier) {
    this.#db = db;
    this.#savedCheckpoint = saved;
    this.verifier = verifier;
  }

  /** The source of the master key of the texts; undefined if no text is encrypted. */
  get textKeySource(): string | undefined {
    return this.#readInSnapshot(() =>
      hasRows(this.#db, "encrypted_text") ? readTextKeyPair(this.#db)?.source : undefined,
    );
  }

  /**
   * Sets the master key, with which `verify` checks the encrypted texts and `tail` returns them, or the reason why
   * there is no master key; both methods report that reason.
   */
  unlockTexts(master: OfflineMasterKey): void {
    this.#master = master;
  }

  verify(trustedCheckpoints: readonly string[] = []): LedgerVerdict {
    const { verifier } = this;
    return withLedgerFailures(() =>
      verifyLedger({
        db: this.#db,
        verifier,
        savedCheckpoint: this.#savedCheckpoint,
        trustedCheckpoints,
        openTexts: () => this.#openTexts(),
      }),
    );
  }

  /** Returns the newest signed checkpoint. */
  readCheckpoint(): { readonly note: string } & Checkpoint {
    return this.#readInSnapshot(() => this.#readNewestCheckpoint());
  }

  /**
   * Proves that an entry is in the ledger. Returns undefined if the ledger never had such an entry. Throws `tampered`
   * if the checkpoint covers the entry, but the entry is missing.
   */
  proveInclusion(seq: number): InclusionProof | undefined {
    return this.#readInSnapshot(() => {
      const isEmpty = storedSize(this.#db) === 0 && this.#readNewestNote() === undefined;
      const head = isEmpty ? undefined : this.#readNewestCheckpoint();
      const body = this.#readBodies(seq, seq + 1)[0];
      if (head === undefined || body === undefined || seq >= head.size) {
        if (seq < Math.max(head?.size ?? 0, this.#readSavedSize()))
          throw tamperedFailure(`entry ${seq} is missing`);
        return undefined;
      }
      const [path, leaf] = [
        this.#computeProof((hashes) => proveInclusion(hashes, seq, head.size)),
        hashLeaf(body),
      ];
      if (!verifyInclusion({ leaf, seq, size: head.size, proof: path, root: head.root }))
        throw tamperedFailure(`entry ${seq} does not match the signed checkpoint`);
      return {
        seq,
        body,
        leaf: leaf.toString("hex"),
        size: head.size,
        path,
        checkpoint: head.note,
      };
    });
  }

  /**
   * Proves that the first `size` entries have not changed since the time when the ledger had only `size` entries.
   * Returns undefined if there are fewer entries.
   */
  proveConsistency(
    size: number,
  ): { path: readonly Buffer[]; checkpoint: string; size: number } | undefined {
    return this.#readInSnapshot(() => {
      const head = this.#readNewestCheckpoint();
      if (size > head.size) return undefined;
      const path = this.#computeProof((hashes) => proveConsistency(hashes, size, head.size));
      return { path, checkpoint: head.note, size: head.size };
    });
  }

  /** Returns the number of sealed texts of entries that are older than `before`, an RFC 3339 time in UTC. */
  countOldTexts(before: string): number {
    return this.#readInSnapshot(() => {
      let count = 0;
      for (let after: number | undefined = -1; after !== undefined; ) {
        const { run, next }: OldTexts = findOldTexts(this.#db, before, after);
        count += run?.texts ?? 0;
        after = next;
      }
      return count;
    });
  }

  /** Returns the last entries, the oldest first, without verifying them. */
  tail(limit: number, name?: string): TailEntry[] {
    return this.#readInSnapshot(() => {
      const rows = this.#db
        .prepare<[{ limit: number; name: string | null }], TailRow>(
          `SELECT e.seq, e.body, s.plain, c.key_id, c.box FROM entry e
           LEFT JOIN sealed s ON s.seq = e.seq LEFT JOIN encrypted_text c ON c.seq = e.seq
           WHERE :name IS NULL OR json_extract(e.body, '$.name') = :name
           ORDER BY e.seq DESC LIMIT :limit`,
        )
        .raw()
        .all({ limit, name: name ?? null });
      const texts = this.#openTexts();
      return rows.toReversed().map((row) => {
        const body = parseBody(row[1]);
        if (!body) throw tamperedFailure("one of the last entries is not a valid entry");
        return { body, leaf: hashLeaf(row[1]).toString("hex"), ...readText(row, texts) };
      });
    });
  }

  /**
   * Writes the ledger as files that other tools can verify: tiles, entries, the checkpoint and the public key. The
   * directory must be empty or missing. Sealed texts are not exported.
   */
  export(directory: string): { readonly size: number; readonly files: number } {
    return this.#readInSnapshot(() => {
      mkdirSync(directory, { recursive: true });
      if (readdirSync(directory).length > 0)
        throw new LedgerFailure("io", "the folder to export to is not empty");
      const { note, size } = this.#readNewestCheckpoint();
      let count = 2;
      const write = (path: string, content: string | Buffer) => {
        mkdirSync(dirname(join(directory, path)), { recursive: true });
        writeFileSync(join(directory, path), content);
      };
      this.#computeProof((hashes) => {
        for (const tile of hashTiles(hashes, size)) {
          write(tile.path, tile.bytes);
          count += 1;
        }
        return [];
      });
      for (const tile of entryTiles((from, to) => this.#readBodies(from, to), size)) {
        write(tile.path, tile.bytes);
        count += 1;
      }
      write("ledger.vkey", `${this.verifier.text}\n`);
      // The checkpoint is written last, so that an export with a checkpoint is complete.
      write("checkpoint", note);
      return { size, files: count };
    });
  }

  [Symbol.dispose](): void {
    this.#db.close();
  }

  /** Returns how many entries the checkpoint file covers; 0 without a valid checkpoint file. */
  #readSavedSize(): number {
    if (this.#savedCheckpoint === undefined) return 0;
    const opened = openCheckpoint(this.#savedCheckpoint, this.verifier);
    return opened.fault === undefined ? opened.size : 0;
  }

  #openTexts(): TextAccess {
    return openTextAccess(this.#db, this.#master, this.verifier.name);
  }

  #readNewestNote(): string | undefined {
    return this.#db
      .prepare<[], string>("SELECT note FROM checkpoint ORDER BY size DESC LIMIT 1")
      .pluck()
      .get();
  }

  #readNewestCheckpoint(): { readonly note: string } & Checkpoint {
    const note = this.#readNewestNote();
    if (note === undefined) throw new LedgerFailure("io", "the ledger has no entries yet");
    const opened = openCheckpoint(note, this.verifier);
    if (opened.fault === undefined) return { ...opened, note };
    const words = `the newest checkpoint ${faultDescriptions[opened.fault]}`;
    throw opened.fault === "unknown" ? new LedgerFailure("key", words) : tamperedFailure(words);
  }

  #readBodies(from: number, to: number): string[] {
    return this.#db
      .prepare<[number, number], string>(
        "SELECT body FROM entry WHERE seq >= ? AND seq < ? ORDER BY seq",
      )
      .pluck()
      .all(from, to);
  }

  #computeProof(make: (hashes: ReturnType<typeof storedHashes>) => Buffer[]): Buffer[] {
    try {
      return make(storedHashes(this.#db));
    } catch (error) {
      if (error instanceof RangeError) throw tamperedFailure("hashes or entries are missing");
      throw error;
    }
  }

  #readInSnapshot<T>(read: () => T): T {
    return withLedgerFailures(() => this.#db.transaction(read)());
  }
}

function readText(
  [seq, , plain, keyId, box]: TailRow,
  texts: TextAccess,
): Pick<TailEntry, "plain" | "lockedBecause"> {
  if (plain !== null || keyId === null || box === null)
    return { plain: plain ?? undefined, lockedBecause: undefined };
  if (!texts.opener) return { plain: undefined, lockedBecause: texts.why };
  const opened = texts.opener.open(seq, keyId, box);
  if (!opened) return { plain: undefined, lockedBecause: "the stored text was changed" };
  return { plain: opened.subarray(SALT_BYTES).toString("utf8"), lockedBecause: undefined };
}

function openForReading(files: LedgerPaths): SqliteDatabase {
  if (readdirIfExists(files.dir)?.includes("ledger.db") !== true)
    throw new LedgerFailure("io", "there is no ledger in this data directory", {
      hint: "name the assistant's data directory with --data-dir",
    });
  const db = new Database(files.db, {
    readonly: true,
    fileMustExist: true,
    timeout: BUSY_TIMEOUT_MS,
  });
  try {
    // The first read of the database may fail, for example on a full disk; the database is then closed.
    const version = readSchemaVersion(db);
    if (version === SCHEMA_WITHOUT_ENCRYPTION) db.exec(emptyTextTables);
    if (version === SCHEMA_WITHOUT_ENCRYPTION || version === ledgerMigrations.length) return db;
    throw new LedgerFailure("io", `the ledger has schema ${version}, which this Berth cannot read`);
  } catch (error) {
    db.close();
    throw error;
  }
}

function readdirIfExists(directory: string): string[] | undefined {
  try {
    return readdirSync(directory);
  } catch (error) {
    if (getErrorCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

function chooseVerifier(files: LedgerPaths, text: string | undefined): NoteVerifier {
  if (text === undefined) return readVerifier(files);
  const verifier = parseVerifier(text);
  if (!verifier)
    throw new LedgerFailure("key", "the given text is not a public key", {
      hint: "a public key is one line, NAME+HASH+BASE64, as in the file ledger.vkey",
    });
  return verifier;
}

export interface OfflineFailure {
  readonly status: "tampered" | "rolled_back" | "unreadable" | "key";
  readonly message: string;
  readonly hint: string | undefined;
}

/** Converts an error of reading the ledger to a LedgerFailure. Returns undefined for any other error. */
export function toOfflineFailure(error: unknown): OfflineFailure | undefined {
  if (!(error instanceof LedgerFailure)) return undefined;
  const { kind, message, hint } = error;
  const isOwn = kind === "tampered" || kind === "rolled_back" || kind === "key";
  const status = isOwn ? kind : "unreadable";
  return { status, message, hint };
}

/** Reads a file that the command line names. `what` describes the content in the error message. */
export function readTextFile(file: string, what: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw new LedgerFailure("io", `${what} cannot be read`, { cause: error });
  }
}

function tamperedFailure(message: string): LedgerFailure {
  return new LedgerFailure("tampered", message, {
    hint: "run `berth ledger verify` to find out what is wrong",
  });
}

function withLedgerFailures<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw toLedgerFailure(error);
  }
}
