import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { onTestFinished } from "vitest";
import { type OpenLedger, openLedger } from "../../src/assistant/ledger/ledger.ts";
import { OfflineLedger } from "../../src/assistant/ledger/offline-ledger.ts";
import type { NewEntry, Receipt } from "../../src/assistant/ledger/port.ts";
import { type Clock, systemClock } from "../../src/base/clock.ts";

/**
 * Creates a state directory, which is removed after the test. If `keep` is given, the directory remains, and `keep`
 * receives the function that removes it.
 */
export function createStateDirectory(keep?: (remove: () => void) => void): string {
  const directory = mkdtempSync(join(tmpdir(), "berth-ledger-"));
  (keep ?? onTestFinished)(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

export function openTestLedger(dir: string, clock: Clock = systemClock): Promise<OpenLedger> {
  return openLedger({ dir, clock, version: "0.0.0-test" });
}

/** The system's clock, whose time a test can set to another one. */
export class SettableClock implements Clock {
  offsetMs = 0;

  now(): number {
    return systemClock.now() + this.offsetMs;
  }

  setTimer(delayMs: number, callback: () => void): () => void {
    return systemClock.setTimer(delayMs, callback);
  }
}

/** Creates the ledger entry with this number. Every third entry has no sealed content. */
export function createEntry(number: number): NewEntry {
  const fields = { model: "tiny", number };
  if (number % 3 === 2) return { name: "context.search", fields };
  return { name: "inference.generate", fields, sealed: { prompt: `prompt ${number}` } };
}

export async function appendEntries(
  ledger: OpenLedger,
  count: number,
  from = 0,
): Promise<Receipt[]> {
  return Promise.all(
    Array.from({ length: count }, (_, index) => ledger.append(createEntry(from + index))),
  );
}

export function verifyLedgerAt(dir: string, against: readonly string[] = []) {
  using offline = OfflineLedger.open(dir);
  return offline.verify(against);
}

/** Changes the ledger's database file directly, as a user with access to the file and an SQL shell can. */
export function editDatabase(dir: string, work: (db: Database.Database) => void): void {
  const db = new Database(join(dir, "ledger/ledger.db"));
  try {
    work(db);
  } finally {
    db.close();
  }
}
