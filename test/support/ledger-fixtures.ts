import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { onTestFinished } from "vitest";
import { type OpenLedger, openLedger } from "../../src/assistant/ledger/ledger.ts";
import { OfflineLedger } from "../../src/assistant/ledger/offline-ledger.ts";
import type { NewEntry, Receipt } from "../../src/assistant/ledger/port.ts";
import { systemClock } from "../../src/base/clock.ts";

/** A state directory of its own, gone when the test is over; `keep` for a whole file's use. */
export function createStateDirectory(keep?: (remove: () => void) => void): string {
  const directory = mkdtempSync(join(tmpdir(), "berth-ledger-"));
  (keep ?? onTestFinished)(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

export function openTestLedger(dir: string): Promise<OpenLedger> {
  return openLedger({ dir, clock: systemClock, version: "0.0.0-test" });
}

/** Every third entry seals nothing, as most rooms' entries do. */
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

/** What somebody does who has the files and a SQL shell. */
export function editDatabase(dir: string, work: (db: Database.Database) => void): void {
  const db = new Database(join(dir, "ledger/ledger.db"));
  try {
    work(db);
  } finally {
    db.close();
  }
}
