import type Database from "better-sqlite3";
import type { SqliteDatabase } from "../../base/sqlite.ts";
import {
  computeCommitment,
  type EntryBody,
  FIRST_ENTRY_PREV,
  hashSaltedText,
  parseBody,
} from "./ledger-entry.ts";
import { TILE_HEIGHT, TILE_WIDTH } from "./merkle-proof.ts";
import { emptyRoot, hashLeafToHex, TreeEdge } from "./merkle-tree.ts";
import type { TextOpener } from "./text-cipher.ts";

export interface LedgerProblem {
  /** The position of the first entry with this problem. */
  readonly seq: number;
  readonly message: string;
}

type Row = [
  seq: number,
  body: string,
  /**
   * The leaf hash in upper-case hexadecimal. SQLite produces this text faster than Node.js creates a buffer for the
   * hash.
   */
  leaf: string,
  salt: Buffer | null,
  plain: string | null,
  keyId: number | null,
  box: Buffer | null,
];

export interface EntryScanOptions {
  /** The tree sizes for which the scan computes the root of the Merkle tree. */
  readonly sizes: readonly number[];
  /** The number of entries that the newest valid checkpoint covers. */
  readonly signedSize: number;
  /** Decrypts encrypted texts; undefined if these cannot be checked. */
  readonly opener: TextOpener | undefined;
}

/**
 * Verifies all entries in one pass: each text against its hash, each entry against its predecessor, each sealed text
 * against its commitment, and each stored hash against the tree that is computed from the entries. The successor of a
 * bad entry is also compared with the stored hash, so that one bad entry is reported as one problem.
 */
export class EntryScan {
  readonly problems: LedgerProblem[] = [];
  /**
   * Problems of texts, of stored hashes, and of the table of dispatches that have no result yet. A problem that may be
   * the consequence of a bad entry, such as one that recorded the erasure of a text, is omitted.
   */
  readonly secondaryProblems: LedgerProblem[] = [];
  /** The tree's root at each requested size, up to the number of entries. */
  readonly roots = new Map<number, Buffer>();
  sealed = 0;
  erased = 0;
  /** The number of encrypted texts that were not checked, because their key is not known. */
  unchecked = 0;
  readonly #db: SqliteDatabase;
  readonly #edge = new TreeEdge();
  readonly #checkpointSizes: ReadonlySet<number>;
  /** Stored roots of subtrees that have not been compared with the computed roots yet, by `level/index`. */
  readonly #nodes: Map<string, Buffer>;
  /** Finds the entries in a range whose text is stored. */
  readonly #storedTexts: Database.Statement<[from: number, to: number], number>;
  readonly #nodeProblems: LedgerProblem[] = [];
  /** Entries whose sealed text is missing, and for which no erasure has been found yet. */
  readonly #missingSealed = new Set<number>();
  readonly #openDispatches = new Set<number>();
  /** The number of texts in each table that the scan of the entries has found. */
  readonly #scannedTexts = { sealed: 0, encrypted_text: 0 };
  readonly #signedSize: number;
  readonly #opener: TextOpener | undefined;
  /** The last entry that is missing, changed or misplaced; -1 if all entries are as they were written. */
  #lastBad = -1;

  constructor(db: SqliteDatabase, { sizes, signedSize, opener }: EntryScanOptions) {
    this.#db = db;
    this.#opener = opener;
    this.#checkpointSizes = new Set(sizes);
    this.#signedSize = signedSize;
    if (this.#checkpointSizes.has(0)) this.roots.set(0, emptyRoot);
    this.#storedTexts = db
      .prepare<[number, number], number>(
        `SELECT seq FROM entry WHERE seq BETWEEN ? AND ?
         AND (seq IN (SELECT seq FROM sealed) OR seq IN (SELECT seq FROM encrypted_text)) ORDER BY seq`,
      )
      .pluck();
    const nodes = db.prepare<[], [number, number, Buffer]>("SELECT level, ix, hash FROM node");
    this.#nodes = new Map(
      nodes
        .raw()
        .all()
        .map(([level, index, hash]) => [`${level}/${index}`, hash]),
    );
  }

  /** The number of scanned entries. */
  get size(): number {
    return this.#edge.size;
  }

  root(): Buffer {
    return this.#edge.root();
  }

  run(): void {
    const rows = this.#db
      .prepare<[], Row>(
        `SELECT e.seq, e.body, hex(e.leaf), s.salt, s.plain, c.key_id, c.box FROM entry e
         LEFT JOIN sealed s ON s.seq = e.seq LEFT JOIN encrypted_text c ON c.seq = e.seq
         ORDER BY e.seq`,
      )
      .raw();
    let expected = 0;
    /** The leaf hash of the previous entry, as computed and as stored. The two differ if that entry is bad. */
    let [prev, storedPrev] = [FIRST_ENTRY_PREV, FIRST_ENTRY_PREV];
    for (const row of rows.iterate()) {
      const [seq, text, stored] = row;
      const hex = hashLeafToHex(text);
      const body = parseBody(text);
      if (seq > expected) this.#addMissing(expected, seq - 1);
      const isIntact = hex.toUpperCase() === stored;
      if (!isIntact) this.#addBadEntry(seq, `the text of entry ${seq} does not match its hash`);
      else if (body === undefined) this.#addBadEntry(seq, `entry ${seq} is not a valid entry`);
      else if (body.seq !== seq) this.#addDisplacedProblem(seq, body);
      else if (seq === expected && body.prev !== prev && body.prev !== storedPrev)
        this.#addBadEntry(
          Math.max(0, seq - 1),
          seq === 0
            ? "entry 0 is not the first entry of the ledger"
            : `entry ${seq - 1} is not the entry that preceded entry ${seq} when entry ${seq} was written`,
        );
      if (row[4] !== null) this.#scannedTexts.sealed += 1;
      if (row[6] !== null) this.#scannedTexts.encrypted_text += 1;
      if (body) this.#trackEntry(body, row);
      this.#addLeaf(Buffer.from(hex, "hex"));
      [prev, storedPrev, expected] = [hex, isIntact ? hex : stored.toLowerCase(), seq + 1];
    }
    if (expected < this.#signedSize) this.#addMissing(expected, this.#signedSize - 1);
    this.#finish();
  }

  #addMissing(from: number, to: number): void {
    const what = from === to ? `entry ${from} is missing` : `entries ${from} to ${to} are missing`;
    this.#addBadEntry(from, what);
    this.#lastBad = Math.max(this.#lastBad, to);
  }

  #addBadEntry(seq: number, message: string): void {
    this.#lastBad = Math.max(this.#lastBad, seq);
    this.#addProblem(seq, message);
  }

  #addProblem(seq: number, message: string): void {
    this.problems.push({ seq, message });
  }

  /**
   * Reports an entry whose body has another `seq` than its row. If the `seq` in the body is lower, an entry was
   * inserted before it.
   */
  #addDisplacedProblem(seq: number, body: EntryBody): void {
    const first = body.seq >= 0 ? Math.min(seq, body.seq) : seq;
    this.#addBadEntry(first, `entry ${seq} was written as entry ${body.seq}`);
    this.#lastBad = Math.max(this.#lastBad, seq);
  }

  #trackEntry(body: EntryBody, row: Row): void {
    const [seq, , , salt, plain, keyId, box] = row;
    const isEncrypted = keyId !== null && box !== null;
    if (salt !== null && plain !== null) this.#checkText(seq, body, computeCommitment(salt, plain));
    if (isEncrypted) this.#checkEncryptedText(seq, body, keyId, box);
    if (isEncrypted || plain !== null) {
      this.sealed += 1;
      if (body.sealed === undefined)
        this.#addProblem(
          seq,
          `entry ${seq} has a sealed text, but its body contains no commitment to a text`,
        );
    } else if (body.sealed !== undefined) this.#missingSealed.add(seq);

    const { from, to, dispatch } = body.fields;
    if (body.name === "ledger.erased" && typeof from === "number" && typeof to === "number")
      this.#trackErasure(from, Math.min(to, seq - 1));
    if (typeof dispatch === "number") this.#openDispatches.delete(dispatch);
    if (body.name.endsWith(".dispatch")) this.#openDispatches.add(seq);
  }

  #checkText(seq: number, body: EntryBody, commitment: string): void {
    if (body.sealed !== undefined && commitment !== body.sealed)
      this.#addProblem(seq, `the sealed text of entry ${seq} does not match its commitment`);
  }

  #checkEncryptedText(seq: number, body: EntryBody, keyId: number, box: Buffer): void {
    const opened = this.#opener?.open(seq, keyId, box);
    if (opened) this.#checkText(seq, body, hashSaltedText(opened));
    else if (this.#opener)
      this.#addProblem(seq, `the encrypted text of entry ${seq}, or its key, was changed or moved`);
    else this.unchecked += 1;
  }

  #trackErasure(from: number, to: number): void {
    for (let seq = Math.max(0, from); seq <= to; seq += 1)
      if (this.#missingSealed.delete(seq)) this.erased += 1;
    for (const seq of this.#storedTexts.all(from, to))
      this.#addProblem(seq, `the sealed text of entry ${seq} was erased, but is stored again`);
  }

  #addLeaf(leaf: Buffer): void {
    this.#edge.add(leaf, (height, index, hash) => {
      if (height % TILE_HEIGHT !== 0) return;
      const level = height / TILE_HEIGHT;
      const stored = this.#nodes.get(`${level}/${index}`);
      this.#nodes.delete(`${level}/${index}`);
      if (stored?.equals(hash) !== true) this.#addNodeProblem(level, index);
    });
    const { size } = this.#edge;
    if (this.#checkpointSizes.has(size)) this.roots.set(size, this.#edge.root());
  }

  #addNodeProblem(level: number, index: number): void {
    const width = TILE_WIDTH ** level;
    const [from, to] = [index * width, (index + 1) * width - 1];
    this.#nodeProblems.push({
      seq: from,
      message: `the stored hash over entries ${from} to ${to} does not match these entries`,
    });
  }

  #finish(): void {
    // A wrong row about an entry up to the last bad entry is not reported, because the bad entry may be its cause: the
    // row may belong to a missing entry, or the bad entry may have recorded the erasure or the result.
    const suspect = (seq: number, message: string) => {
      if (seq > this.#lastBad) this.secondaryProblems.push({ seq: Math.max(0, seq), message });
    };
    for (const seq of this.#missingSealed)
      suspect(seq, `the sealed text of entry ${seq} is missing, and no entry records its erasure`);
    for (const seq of this.#findOrphanTexts())
      suspect(seq, `a sealed text is stored for entry ${seq}, which is missing`);
    const dispatches = this.#db.prepare<[], number>("SELECT seq FROM open_dispatch");
    const open = new Set(dispatches.pluck().all());
    for (const seq of symmetricDifference(this.#openDispatches, open))
      suspect(seq, `the table of dispatches without a result is wrong about entry ${seq}`);
    // Problems of stored hashes are reported only if all entries are good, because a bad entry changes every hash above
    // it in the Merkle tree.
    if (this.problems.length > 0) return;
    for (const problem of this.#nodeProblems) this.secondaryProblems.push(problem);
    for (const key of this.#nodes.keys())
      suspect(0, `the stored hash ${key} covers entries that are missing`);
  }

  /** Returns the texts without an entry. The search is slow, so it runs only if the scan of the entries has missed texts. */
  #findOrphanTexts(): number[] {
    return (["sealed", "encrypted_text"] as const).flatMap((table) => {
      const count = this.#db.prepare<[], number>(`SELECT count(*) FROM ${table}`).pluck().get();
      if (count === this.#scannedTexts[table]) return [];
      return this.#db
        .prepare<[], number>(`SELECT seq FROM ${table} WHERE seq NOT IN (SELECT seq FROM entry)`)
        .pluck()
        .all();
    });
  }
}

function symmetricDifference(a: ReadonlySet<number>, b: ReadonlySet<number>): number[] {
  return [...[...a].filter((item) => !b.has(item)), ...[...b].filter((item) => !a.has(item))];
}
