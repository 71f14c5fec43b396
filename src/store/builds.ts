import { type Clock, timestamp } from "../base/clock.ts";
import type { SqliteDatabase } from "../base/sqlite.ts";
import type { BuildRecord, BuildRecordState, BuildRecords } from "./store.ts";
import type { Transactions } from "./transactions.ts";

interface BuildRow {
  readonly id: number;
  readonly app: string;
  readonly generation: number;
  readonly source: string;
  readonly revision: string;
  readonly image: string;
  readonly state: BuildRecordState;
  readonly message: string | null;
  readonly image_bytes: number | null;
  readonly created_at: string;
  readonly started_at: string | null;
  readonly finished_at: string | null;
}

/**
 * The records of builds. They are written lazily, because a build whose record is lost in a power cut is simply
 * repeated.
 */
export class SqliteBuildRecords implements BuildRecords {
  readonly #db: SqliteDatabase;
  readonly #clock: Clock;
  readonly #transactions: Transactions;
  readonly #insert;
  readonly #update;
  readonly #get;
  readonly #selectByImage;
  readonly #selectExpired;
  readonly #delete;

  constructor(db: SqliteDatabase, clock: Clock, transactions: Transactions) {
    this.#db = db;
    this.#clock = clock;
    this.#transactions = transactions;
    this.#insert = db.prepare<[string, number, string, string, string, string]>(`
      INSERT INTO builds (app, generation, source, revision, image, state, created_at)
      VALUES (?, ?, ?, ?, ?, 'queued', ?)`);
    this.#update = db.prepare<
      [string, string | null, number | null, string | null, string | null, number]
    >(`
      UPDATE builds SET state = ?, message = ?, image_bytes = coalesce(?, image_bytes),
        started_at = coalesce(?, started_at), finished_at = coalesce(?, finished_at)
      WHERE id = ?`);
    this.#get = db.prepare<[number], BuildRow>("SELECT * FROM builds WHERE id = ?");
    this.#selectByImage = db.prepare<[string], BuildRow>(
      "SELECT * FROM builds WHERE image = ? ORDER BY id DESC LIMIT 1",
    );
    this.#selectExpired = db
      .prepare<[string, number], number>(`
        SELECT id FROM builds WHERE app = ? AND state NOT IN ('queued', 'running')
        ORDER BY id DESC LIMIT -1 OFFSET ?`)
      .pluck();
    this.#delete = db.prepare<[number]>("DELETE FROM builds WHERE id = ?");
  }

  create(
    input: Pick<BuildRecord, "app" | "generation" | "source" | "revision" | "image">,
  ): BuildRecord {
    return this.#transactions.writeLazily(() => {
      const { app, generation, source, revision, image } = input;
      const now = timestamp(this.#clock.now());
      const { lastInsertRowid } = this.#insert.run(app, generation, source, revision, image, now);
      const row = this.#get.get(Number(lastInsertRowid));
      if (!row) throw new Error("a build record is missing right after it was written");
      return toBuildRecord(row);
    });
  }

  mark(
    id: number,
    state: BuildRecordState,
    details: { readonly message?: string; readonly imageBytes?: number } = {},
  ): void {
    const now = timestamp(this.#clock.now());
    const isOver = state !== "queued" && state !== "running";
    this.#transactions.writeLazily(() =>
      this.#update.run(
        state,
        details.message ?? null,
        details.imageBytes ?? null,
        state === "running" ? now : null,
        isOver ? now : null,
        id,
      ),
    );
  }

  get(id: number): BuildRecord | undefined {
    return this.#transactions.read(() => mapRow(this.#get.get(id)));
  }

  list(filter: {
    readonly app?: string;
    readonly states?: readonly BuildRecordState[];
    readonly limit: number;
  }): BuildRecord[] {
    const conditions = [
      ...(filter.app === undefined ? [] : ["app = ?"]),
      ...(filter.states ? [`state IN (${filter.states.map(() => "?").join(", ")})`] : []),
    ];
    const where = conditions.length > 0 ? `WHERE ${conditions.join(" AND ")}` : "";
    const values = [...(filter.app === undefined ? [] : [filter.app]), ...(filter.states ?? [])];
    return this.#transactions.read(() =>
      this.#db
        .prepare<(string | number)[], BuildRow>(
          `SELECT * FROM builds ${where} ORDER BY id DESC LIMIT ?`,
        )
        .all(...values, filter.limit)
        .map(toBuildRecord),
    );
  }

  findByImage(image: string): BuildRecord | undefined {
    return this.#transactions.read(() => mapRow(this.#selectByImage.get(image)));
  }

  removeOldest(filter: { readonly app: string; readonly keep: number }): number[] {
    return this.#transactions.writeLazily(() => {
      const ids = this.#selectExpired.all(filter.app, filter.keep);
      for (const id of ids) this.#delete.run(id);
      return ids;
    });
  }
}

const mapRow = (row: BuildRow | undefined) => row && toBuildRecord(row);

function toBuildRecord(row: BuildRow): BuildRecord {
  return {
    id: row.id,
    app: row.app,
    generation: row.generation,
    source: row.source,
    revision: row.revision,
    image: row.image,
    state: row.state,
    message: row.message,
    imageBytes: row.image_bytes,
    createdAt: row.created_at,
    startedAt: row.started_at,
    finishedAt: row.finished_at,
  };
}
