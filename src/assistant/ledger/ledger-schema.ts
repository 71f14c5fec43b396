import type { Migration, SqliteDatabase } from "../../base/sqlite.ts";
import type { TreeHashes } from "./merkle-proof.ts";
import { HASH_BYTES } from "./merkle-tree.ts";

/**
 * The schema of the ledger's database. Every column is hashed into the Merkle tree, can be computed from columns that
 * are, or is authenticated by the key of the texts, so a verification checks all columns.
 */
export const ledgerMigrations: readonly Migration[] = [
  `
  -- The log itself. leaf is the hash of body.
  CREATE TABLE entry (
    seq  INTEGER PRIMARY KEY,
    body TEXT NOT NULL,
    leaf BLOB NOT NULL
  ) STRICT;

  -- Roots of full subtrees of 256 ** level leaves, level 1 and up.
  CREATE TABLE node (
    level INTEGER NOT NULL,
    ix    INTEGER NOT NULL,
    hash  BLOB NOT NULL,
    PRIMARY KEY (level, ix)
  ) STRICT, WITHOUT ROWID;

  -- The texts that entries commit to. A ledger.erased entry records the deletion of a row.
  CREATE TABLE sealed (
    seq   INTEGER PRIMARY KEY,
    salt  BLOB NOT NULL,
    plain TEXT NOT NULL
  ) STRICT;

  -- The newest checkpoint, and older ones at least 1,024 entries apart.
  CREATE TABLE checkpoint (
    size INTEGER PRIMARY KEY,
    note TEXT NOT NULL
  ) STRICT;

  -- Dispatch entries that have no result yet.
  CREATE TABLE open_dispatch (
    seq INTEGER PRIMARY KEY
  ) STRICT;
  `,
  `
  -- From here on, the table sealed has only the texts that are not encrypted yet.

  -- The keys are explained in text-cipher.ts. private_key is encrypted with a key from source.
  CREATE TABLE text_key_pair (
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    source      TEXT NOT NULL,
    public_key  BLOB NOT NULL,
    private_key BLOB NOT NULL
  ) STRICT;

  -- Keys of texts, encrypted with the public key.
  CREATE TABLE text_key (
    id      INTEGER PRIMARY KEY,
    wrapped BLOB NOT NULL
  ) STRICT;

  -- Salts and texts, encrypted.
  CREATE TABLE encrypted_text (
    seq    INTEGER PRIMARY KEY,
    key_id INTEGER NOT NULL,
    box    BLOB NOT NULL
  ) STRICT;
  `,
];

/**
 * SQL that creates empty tables for the keys and the encrypted texts. A reader needs them for a ledger of an older
 * Berth, which lacks these tables until a newer Berth writes the ledger.
 */
export const emptyTextTables = `
  CREATE TEMP TABLE text_key_pair (id, source, public_key, private_key);
  CREATE TEMP TABLE text_key (id, wrapped);
  CREATE TEMP TABLE encrypted_text (seq, key_id, box);
`;

/** Provides the tree's hashes that are stored in the database. `read` throws RangeError if a row is missing. */
export function storedHashes(db: SqliteDatabase): TreeHashes {
  const leaves = db
    .prepare<[number, number], Buffer>(
      "SELECT leaf FROM entry WHERE seq >= ? AND seq < ? ORDER BY seq",
    )
    .pluck();
  const nodes = db
    .prepare<[number, number, number], Buffer>(
      "SELECT hash FROM node WHERE level = ? AND ix >= ? AND ix < ? ORDER BY ix",
    )
    .pluck();
  return {
    read(level, from, to) {
      const hashes = level === 0 ? leaves.all(from, to) : nodes.all(level, from, to);
      if (hashes.length !== to - from || hashes.some((hash) => hash.length !== HASH_BYTES))
        throw new RangeError(`some of the hashes ${from} to ${to} of level ${level} are missing`);
      return hashes;
    },
  };
}

/**
 * Returns the number of entries, computed from the last `seq`. Missing entries before the last one are not detected.
 */
export function storedSize(db: SqliteDatabase): number {
  const last = db.prepare<[], number | null>("SELECT max(seq) FROM entry").pluck().get();
  return (last ?? -1) + 1;
}
