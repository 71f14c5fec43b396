import type { SqliteDatabase } from "../../base/sqlite.ts";

/**
 * A run of consecutive stored texts that are all old enough to be erased. One entry `ledger.erased` records the erasure
 * of one run.
 */
export interface TextRun {
  /** The number of the entry with the first text of the run. */
  readonly from: number;
  readonly to: number;
  readonly texts: number;
}

export interface OldTexts {
  /** The first run of old texts after the given entry; undefined if the examined part has none. */
  readonly run: TextRun | undefined;
  /** The entry after which the search must continue; undefined if no text is left to examine. */
  readonly next: number | undefined;
}

/** The number of texts that one search examines at most, because appends wait while it runs. */
const EXAMINED_MAX = 4_096;
/** The limits of one run, so that the pages that its erasure overwrites fit into the disk reserve. */
const RUN_TEXTS_MAX = 1_024;
const RUN_BYTES_MAX = 4 * 1024 * 1024;

/**
 * Finds the first run of texts after entry `after` whose entries are older than `before`, an RFC 3339 time like those
 * of the entries. Times need not grow with the entries, because the clock of a machine can be set back.
 */
export function findOldTexts(db: SqliteDatabase, before: string, after: number): OldTexts {
  const rows = db
    .prepare<[unknown], [seq: number, bytes: number, time: string | null]>(
      `SELECT t.seq, t.bytes, CASE WHEN json_valid(e.body) THEN json_extract(e.body, '$.time') END
       FROM (SELECT seq, octet_length(plain) AS bytes FROM sealed WHERE seq > :after
             UNION ALL SELECT seq, octet_length(box) FROM encrypted_text WHERE seq > :after
             ORDER BY seq LIMIT :max) t
       LEFT JOIN entry e ON e.seq = t.seq ORDER BY t.seq`,
    )
    .raw()
    .all({ after, max: EXAMINED_MAX });
  let run: TextRun | undefined;
  let bytesOfRun = 0;
  for (const [seq, bytes, time] of rows) {
    const isOld = time !== null && time < before;
    if (run === undefined) {
      if (isOld) [run, bytesOfRun] = [{ from: seq, to: seq, texts: 1 }, bytes];
      continue;
    }
    bytesOfRun += bytes;
    if (!isOld || run.texts === RUN_TEXTS_MAX || bytesOfRun > RUN_BYTES_MAX)
      return { run, next: run.to };
    run = { from: run.from, to: seq, texts: run.texts + 1 };
  }
  return { run, next: rows.length < EXAMINED_MAX ? undefined : rows.at(-1)?.[0] };
}
