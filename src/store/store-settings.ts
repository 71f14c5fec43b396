import type { SqliteDatabase } from "../base/sqlite.ts";
import type { Settings } from "./store.ts";
import type { Transactions } from "./transactions.ts";

/** Stores single values by key: those of callers in the table `settings`, and those of the store itself in `meta`. */
export class SqliteSettings implements Settings {
  readonly #transactions: Transactions;
  readonly #select;
  readonly #upsert;

  constructor(db: SqliteDatabase, transactions: Transactions, table: "settings" | "meta") {
    this.#transactions = transactions;
    this.#select = db.prepare<[string], string>(`SELECT value FROM ${table} WHERE key = ?`).pluck();
    this.#upsert = db.prepare<[string, string]>(
      `INSERT INTO ${table} (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value`,
    );
  }

  get(key: string): string | undefined {
    return this.#transactions.read(() => this.#select.get(key));
  }

  set(key: string, value: string): void {
    if (this.get(key) === value) return;
    this.#transactions.write(() => this.#upsert.run(key, value));
  }
}
