import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { onTestFinished } from "vitest";
import type { Caller } from "../../src/assistant/caller.ts";
import { AppMemory } from "../../src/assistant/context/memory/app-memory.ts";
import { FakeLedger } from "./fake-ledger.ts";
import { temporaryFolder } from "./temporary-folder.ts";
import { VirtualClock } from "./virtual-clock.ts";

export const unconfinedCaller: Caller = { connection: ":1.7", pid: 4711, app: undefined };
export const NOTES = "org.example.Notes";
export const OTHER = "org.example.Other";

export function sandboxedCaller(id: string, kind: "flatpak" | "snap" | "unit" = "flatpak"): Caller {
  return { connection: ":1.8", pid: 4712, app: { id, kind } };
}

/** An AppMemory with a real directory, an in-memory ledger and a virtual clock. */
export class MemoryHarness {
  readonly dir: string;
  readonly ledger = new FakeLedger();
  readonly clock = new VirtualClock();
  memory: AppMemory;

  constructor(dir = temporaryFolder("memory")) {
    this.dir = dir;
    this.memory = this.#openMemory();
    onTestFinished(() => this.memory[Symbol.asyncDispose]());
  }

  /** Closes the memory and opens it again, as a restart of the daemon does. */
  async restart(): Promise<void> {
    await this.memory[Symbol.asyncDispose]();
    this.memory = this.#openMemory();
  }

  keyFiles(): string[] {
    return readdirSync(join(this.dir, "memory.keys")).toSorted();
  }

  /** Counts the items of all apps through a separate database connection. */
  countItems(): number {
    return this.sql((db) => db.prepare<[], number>("SELECT count(*) FROM item").pluck().get() ?? 0);
  }

  /** Overwrites the number of keys that the database stores for an app, without adding keys. */
  setKeyCount(app: string, keys: number): void {
    this.sql((db) => db.prepare("UPDATE app SET keys = ? WHERE name = ?").run(keys, app));
  }

  addApps(count: number): void {
    this.sql((db) => {
      const add = db.prepare("INSERT INTO app (name, keys, bytes) VALUES (?, 0, 0)");
      for (let number = 0; number < count; number += 1) add.run(`org.example.app${number}`);
    });
  }

  /**
   * Runs `work` while another connection holds the database's write lock. `work` may call `release` to release the lock
   * before it ends.
   */
  async whileLocked(work: (release: () => void) => Promise<void>): Promise<void> {
    const db = new Database(join(this.dir, "memory.db"));
    try {
      db.exec("BEGIN IMMEDIATE");
      await work(() => db.exec("COMMIT"));
    } finally {
      db.close();
    }
  }

  sql<T>(work: (db: Database.Database) => T): T {
    const db = new Database(join(this.dir, "memory.db"));
    try {
      return work(db);
    } finally {
      db.close();
    }
  }

  #openMemory(): AppMemory {
    return new AppMemory({ dir: this.dir, ledger: this.ledger, clock: this.clock });
  }
}

/** Returns the names of the files below `dir` that contain these bytes, sorted. */
export function findFilesWith(dir: string, bytes: Uint8Array | string): string[] {
  const wanted = Buffer.from(bytes);
  return readdirSync(dir, { recursive: true, encoding: "utf8" })
    .filter((name) => statSync(join(dir, name)).isFile())
    .filter((name) => readFileSync(join(dir, name)).includes(wanted))
    .toSorted();
}

/** Reads the sealed values of an app directly from the database file, without the key. */
export function readSealedValues(dir: string, app: string): Buffer[] {
  const db = new Database(join(dir, "memory.db"), { readonly: true });
  try {
    return db
      .prepare<[string], Buffer>(
        "SELECT sealed FROM item JOIN app ON app.id = item.app WHERE app.name = ? ORDER BY item.id",
      )
      .pluck()
      .all(app);
  } finally {
    db.close();
  }
}

export function readAppSecret(dir: string, app: string): Buffer {
  return readFileSync(join(dir, "memory.keys", app));
}

/** Opens a connection with a read transaction, for which SQLite must keep a snapshot of the current state. */
export function openOutsideReader(dir: string): Database.Database {
  const db = new Database(join(dir, "memory.db"), { readonly: true });
  db.exec("BEGIN");
  db.prepare("SELECT count(*) FROM item").get();
  onTestFinished(() => void db.close());
  return db;
}
