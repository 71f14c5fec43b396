import type { SqliteDatabase } from "../../../../base/sqlite.ts";
import type { IndexedSource } from "../index-protocol.ts";
import type { DocumentStore } from "./document-store.ts";

interface SourceRow {
  readonly id: number;
  readonly name: string;
  readonly path: string;
}

/**
 * Makes the table of sources match the configured sources, and returns the table's rows. Deletes the documents of a
 * source that is no longer configured, or whose path has changed.
 */
export function syncSourceRows(
  db: SqliteDatabase,
  sources: readonly IndexedSource[],
  documents: DocumentStore,
): readonly SourceRow[] {
  const all = db.prepare<[], SourceRow>("SELECT id, name, path FROM source ORDER BY id");
  let hasRemoved = false;
  const rows = documents.inTransaction(() => {
    for (const { id, name, path } of all.all()) {
      const wanted = sources.find((source) => source.name === name);
      if (wanted?.path === path) continue;
      for (const document of documents.listBelow(id, "")) documents.remove(document.id);
      db.prepare("DELETE FROM source WHERE id = ?").run(id);
      hasRemoved = true;
    }
    const add = db.prepare(
      `INSERT INTO source (name, path, scope) VALUES (?, ?, ?)
       ON CONFLICT (name) DO UPDATE SET scope = excluded.scope`,
    );
    for (const { name, path, scope } of sources) add.run(name, path, scope);
    return all.all();
  });
  if (hasRemoved) db.pragma("wal_checkpoint(TRUNCATE)");
  return rows;
}

export function countDocuments(db: SqliteDatabase): {
  perSource: ReadonlyMap<number, { indexed: number; skipped: number }>;
  chunks: number;
} {
  const rows = db
    .prepare<[], { source: number; indexed: number; skipped: number }>(
      `SELECT source, count(sha256) AS indexed, count(*) - count(sha256) AS skipped
       FROM document GROUP BY source`,
    )
    .all();
  const chunks = db.prepare<[], number>("SELECT count(*) FROM chunk").pluck().get() ?? 0;
  return { perSource: new Map(rows.map((row) => [row.source, row])), chunks };
}
