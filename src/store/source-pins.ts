import type { SqliteDatabase } from "../base/sqlite.ts";
import type { SourcePin, SourcePins } from "./store.ts";
import type { Transactions } from "./transactions.ts";

export class SqliteSourcePins implements SourcePins {
  readonly #transactions: Transactions;
  readonly #get;
  readonly #set;
  readonly #remove;

  constructor(db: SqliteDatabase, transactions: Transactions) {
    this.#transactions = transactions;
    this.#get = db.prepare<[string], { key: string; revision: string; resolved_at_ms: number }>(
      "SELECT key, revision, resolved_at_ms FROM source_pins WHERE app = ?",
    );
    this.#set = db.prepare<[string, string, string, number]>(`
      INSERT INTO source_pins (app, key, revision, resolved_at_ms) VALUES (?, ?, ?, ?)
      ON CONFLICT (app) DO UPDATE SET key = excluded.key, revision = excluded.revision,
        resolved_at_ms = excluded.resolved_at_ms`);
    this.#remove = db.prepare<[string]>("DELETE FROM source_pins WHERE app = ?");
  }

  get(app: string): SourcePin | undefined {
    return this.#transactions.read(() => {
      const row = this.#get.get(app);
      return row && { key: row.key, revision: row.revision, resolvedAtMs: row.resolved_at_ms };
    });
  }

  /** Stores a pin. Writes durably, because the resolved commit is stored nowhere else. */
  set(app: string, pin: SourcePin): void {
    this.#transactions.write(() => this.#set.run(app, pin.key, pin.revision, pin.resolvedAtMs));
  }

  remove(app: string): void {
    this.#transactions.write(() => this.#remove.run(app));
  }
}
