import type { SqliteDatabase } from "../base/sqlite.ts";
import type { AddressLeases } from "./leases.ts";
import type { Transactions } from "./transactions.ts";

export class SqliteAddressLeases implements AddressLeases {
  readonly #transactions: Transactions;
  readonly #select;
  readonly #lowestFree;
  readonly #insert;
  readonly #release;

  constructor(db: SqliteDatabase, transactions: Transactions) {
    this.#transactions = transactions;
    this.#select = db
      .prepare<[string, number], number>(
        "SELECT pair FROM address_leases WHERE app = ? AND replica = ?",
      )
      .pluck();
    this.#lowestFree = db
      .prepare<[], number>(`
        SELECT min(pair) FROM (SELECT 0 AS pair UNION ALL SELECT pair + 1 FROM address_leases)
        WHERE pair NOT IN (SELECT pair FROM address_leases)`)
      .pluck();
    this.#insert = db.prepare<[string, number, number]>(
      "INSERT INTO address_leases (app, replica, pair) VALUES (?, ?, ?)",
    );
    this.#release = db.prepare<[string]>("DELETE FROM address_leases WHERE app = ?");
  }

  lease(app: string, replica: number): number {
    return (
      this.get(app, replica) ??
      this.#transactions.writeLazily(() => {
        const pair = this.#lowestFree.get() ?? 0;
        this.#insert.run(app, replica, pair);
        return pair;
      })
    );
  }

  get(app: string, replica: number): number | undefined {
    return this.#transactions.read(() => this.#select.get(app, replica));
  }

  release(app: string): void {
    this.#transactions.write(() => this.#release.run(app));
  }
}
