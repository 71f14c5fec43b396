import type { SqliteDatabase } from "../base/sqlite.ts";
import type { OwnedImages } from "./store.ts";
import type { Transactions } from "./transactions.ts";

export class SqliteOwnedImages implements OwnedImages {
  readonly #transactions: Transactions;
  readonly #insert;
  readonly #list;
  readonly #remove;
  readonly #selectOtherOwner;

  constructor(db: SqliteDatabase, transactions: Transactions) {
    this.#transactions = transactions;
    this.#insert = db.prepare<[string, string]>(
      "INSERT INTO owned_images (app, reference) VALUES (?, ?) ON CONFLICT DO NOTHING",
    );
    this.#list = db
      .prepare<[string], string>(
        "SELECT reference FROM owned_images WHERE app = ? ORDER BY reference",
      )
      .pluck();
    this.#remove = db.prepare<[string, string]>(
      "DELETE FROM owned_images WHERE app = ? AND reference = ?",
    );
    this.#selectOtherOwner = db
      .prepare<[string, string], number>(
        "SELECT 1 FROM owned_images WHERE reference = ? AND app <> ? LIMIT 1",
      )
      .pluck();
  }

  add(reference: string, app: string): void {
    this.#transactions.write(() => this.#insert.run(app, reference));
  }

  list(app: string): string[] {
    return this.#transactions.read(() => this.#list.all(app));
  }

  remove(reference: string, app: string): void {
    this.#transactions.write(() => this.#remove.run(app, reference));
  }

  isUsedByOthers(reference: string, app: string): boolean {
    return this.#transactions.read(() => this.#selectOtherOwner.get(reference, app) !== undefined);
  }
}
