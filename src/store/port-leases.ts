import { createHash } from "node:crypto";
import { BerthError } from "../base/errors.ts";
import type { SqliteDatabase } from "../base/sqlite.ts";
import type { PortLeases } from "./leases.ts";
import type { Transactions } from "./transactions.ts";

/**
 * The lowest port of the range, which lies above the well-known ports, and below the ephemeral ports of Linux (32768
 * and up).
 */
export const LEASE_PORT_MIN = 20_000;
export const LEASE_PORT_MAX = 31_999;
const PORT_COUNT = LEASE_PORT_MAX - LEASE_PORT_MIN + 1;

export class SqlitePortLeases implements PortLeases {
  readonly #transactions: Transactions;
  readonly #instanceId: string;
  readonly #select;
  readonly #taken;
  readonly #upsert;
  readonly #release;

  constructor(db: SqliteDatabase, transactions: Transactions, instanceId: string) {
    this.#instanceId = instanceId;
    this.#transactions = transactions;
    this.#select = db
      .prepare<[string, number, number], number>(
        "SELECT port FROM port_leases WHERE app = ? AND replica = ? AND container_port = ?",
      )
      .pluck();
    this.#taken = db.prepare<[], number>("SELECT port FROM port_leases").pluck();
    this.#upsert = db.prepare<[string, number, number, number]>(`
      INSERT INTO port_leases (app, replica, container_port, port) VALUES (?, ?, ?, ?)
      ON CONFLICT (app, replica, container_port) DO UPDATE SET port = excluded.port`);
    this.#release = db.prepare<[string]>("DELETE FROM port_leases WHERE app = ?");
  }

  lease(
    app: string,
    replica: number,
    containerPort: number,
    avoid: readonly number[] = [],
  ): number {
    const current = this.get(app, replica, containerPort);
    if (current !== undefined && !avoid.includes(current)) return current;
    return this.#transactions.writeLazily(() => {
      const taken = new Set([...this.#taken.all(), ...avoid]);
      // A hash spreads the ports over the range. The hash includes the instance, so that two instances on one machine
      // use different ports.
      const start = createHash("sha256")
        .update(`${this.#instanceId}/${app}/${replica}`)
        .digest()
        .readUInt32BE(0);
      for (let step = 0; step < PORT_COUNT; step += 1) {
        const port = LEASE_PORT_MIN + ((start + step) % PORT_COUNT);
        if (taken.has(port)) continue;
        this.#upsert.run(app, replica, containerPort, port);
        return port;
      }
      throw new BerthError(
        "port_taken",
        `no port between ${LEASE_PORT_MIN} and ${LEASE_PORT_MAX} is left for App ${app}`,
        { hint: "delete unused apps, or stop other programs that listen on these ports" },
      );
    });
  }

  get(app: string, replica: number, containerPort: number): number | undefined {
    return this.#transactions.read(() => this.#select.get(app, replica, containerPort));
  }

  release(app: string): void {
    this.#transactions.write(() => this.#release.run(app));
  }
}
