import type { Migration } from "../../../../base/sqlite.ts";

/**
 * The schema of the index. It can always be built from the files, so a damaged index is deleted.
 *
 * The table `chunk` has few columns, because a search reads its row for each match; the texts are in the table
 * `passage`. The option `secure-delete` removes deleted words from the full-text index at once.
 */
export const contextMigrations: readonly Migration[] = [
  `
  CREATE TABLE source (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    path TEXT NOT NULL,
    scope TEXT NOT NULL
  ) STRICT;

  -- sha256 is null for a file that is not indexed: not a text, too large, or a secret.
  CREATE TABLE document (
    id INTEGER PRIMARY KEY,
    source INTEGER NOT NULL REFERENCES source (id),
    path TEXT NOT NULL,
    title TEXT NOT NULL,
    size INTEGER NOT NULL,
    mtime_ms REAL NOT NULL,
    ctime_ms REAL NOT NULL,
    indexed_ms REAL NOT NULL,
    sha256 BLOB,
    UNIQUE (source, path)
  ) STRICT;
  CREATE INDEX document_content ON document (source, sha256) WHERE sha256 IS NOT NULL;

  CREATE TABLE chunk (
    id INTEGER PRIMARY KEY,
    document INTEGER NOT NULL REFERENCES document (id),
    source INTEGER NOT NULL,
    place INTEGER NOT NULL,
    key TEXT NOT NULL
  ) STRICT;
  CREATE INDEX chunk_document ON chunk (document, place);

  CREATE TABLE passage (
    id INTEGER PRIMARY KEY REFERENCES chunk (id),
    title TEXT NOT NULL,
    body TEXT NOT NULL,
    hidden TEXT NOT NULL
  ) STRICT;

  CREATE VIRTUAL TABLE passage_words USING fts5 (
    title, body, hidden,
    content = 'passage', content_rowid = 'id',
    tokenize = 'porter unicode61 remove_diacritics 2'
  );
  INSERT INTO passage_words (passage_words, rank) VALUES ('secure-delete', 1);
  CREATE VIRTUAL TABLE word USING fts5vocab (passage_words, 'row');

  -- The current space is in the setting "space". Vectors of other spaces are deleted in the background.
  CREATE TABLE vector (
    chunk INTEGER NOT NULL REFERENCES chunk (id),
    space INTEGER NOT NULL,
    scale REAL NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (chunk, space)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
  `,
];
