import type { SqliteDatabase } from "../../base/sqlite.ts";
import { type TextKeyPair, TextSealer } from "./text-cipher.ts";

/** The limits of one commit of `encryptSome`. Appends to the ledger wait for the commit, so it must be short. */
const TEXTS_MAX = 512;
const BYTES_MAX = 4 * 1024 * 1024;

/** The state of the keys of a ledger's texts. */
export interface TextKeys {
  readonly pair: TextKeyPair | undefined;
  /** True if there are texts that only the private key can decrypt. */
  readonly hasEncrypted: boolean;
}

/**
 * Writes the sealed texts of a ledger. Texts are encrypted as soon as the ledger has a key pair, and readable until
 * then. All methods must be called within a transaction. After a transaction has failed, the store must not be used any
 * more.
 */
export class TextStore {
  readonly #db: SqliteDatabase;
  readonly #statements;
  #pair: TextKeyPair | undefined;
  /** The text key of this store, which is written when the first text needs it. */
  #sealer: { readonly id: number; readonly seal: TextSealer["seal"] } | undefined;

  constructor(db: SqliteDatabase) {
    this.#db = db;
    this.#statements = {
      addReadable: db.prepare("INSERT INTO sealed (seq, salt, plain) VALUES (?, ?, ?)"),
      addKey: db.prepare("INSERT INTO text_key (wrapped) VALUES (?)"),
      addEncrypted: db.prepare("INSERT INTO encrypted_text (seq, key_id, box) VALUES (?, ?, ?)"),
      someReadable: db
        .prepare<[number], [seq: number, salt: Buffer, text: string]>(
          "SELECT seq, salt, plain FROM sealed ORDER BY seq LIMIT ?",
        )
        .raw(),
      eraseReadable: db.prepare("DELETE FROM sealed WHERE seq BETWEEN ? AND ?"),
      eraseEncrypted: db.prepare("DELETE FROM encrypted_text WHERE seq BETWEEN ? AND ?"),
    };
    this.#pair = readTextKeyPair(db);
  }

  readKeys(): TextKeys {
    return { pair: this.#pair, hasEncrypted: hasRows(this.#db, "encrypted_text") };
  }

  /** Sets or replaces the key pair. Returns false and changes nothing if a stored text needs the present key pair. */
  saveKeyPair(pair: TextKeyPair): boolean {
    if (hasRows(this.#db, "encrypted_text")) return false;
    this.#db.exec("DELETE FROM text_key; DELETE FROM text_key_pair");
    this.#db
      .prepare(
        "INSERT INTO text_key_pair (id, source, public_key, private_key) VALUES (1, ?, ?, ?)",
      )
      .run(pair.source, pair.publicKey, pair.privateKey);
    this.#pair = pair;
    this.#sealer = undefined;
    return true;
  }

  add(seq: number, salt: Uint8Array, text: string): void {
    const sealer = this.#makeSealer();
    if (sealer) this.#statements.addEncrypted.run(seq, sealer.id, sealer.seal(seq, salt, text));
    else this.#statements.addReadable.run(seq, salt, text);
  }

  erase(from: number, to: number): void {
    this.#statements.eraseReadable.run(from, to);
    this.#statements.eraseEncrypted.run(from, to);
  }

  /**
   * Encrypts some of the texts that are not encrypted yet. Returns the number of these texts, which is 0 if none is
   * left.
   */
  encryptSome(): number {
    const sealer = this.#makeSealer();
    if (!sealer) return 0;
    const rows: [seq: number, salt: Buffer, text: string][] = [];
    let bytes = 0;
    for (const row of this.#statements.someReadable.iterate(TEXTS_MAX)) {
      bytes += row[2].length;
      if (rows.length > 0 && bytes > BYTES_MAX) break;
      rows.push(row);
    }
    for (const [seq, salt, text] of rows) {
      this.#statements.addEncrypted.run(seq, sealer.id, sealer.seal(seq, salt, text));
      this.#statements.eraseReadable.run(seq, seq);
    }
    return rows.length;
  }

  #makeSealer() {
    if (this.#sealer || !this.#pair) return this.#sealer;
    const sealer = new TextSealer(this.#pair.publicKey);
    const { lastInsertRowid } = this.#statements.addKey.run(sealer.wrapped);
    this.#sealer = { id: Number(lastInsertRowid), seal: sealer.seal.bind(sealer) };
    return this.#sealer;
  }
}

export function readTextKeyPair(db: SqliteDatabase): TextKeyPair | undefined {
  const [source, publicKey, privateKey] =
    db
      .prepare<[], [string, Buffer, Buffer]>(
        "SELECT source, public_key, private_key FROM text_key_pair",
      )
      .raw()
      .get() ?? [];
  if (source === undefined || !publicKey || !privateKey) return undefined;
  return { source, publicKey, privateKey };
}

export function hasRows(db: SqliteDatabase, table: "encrypted_text" | "sealed"): boolean {
  return db.prepare(`SELECT 1 FROM ${table} LIMIT 1`).get() !== undefined;
}
