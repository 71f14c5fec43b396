import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { onTestFinished } from "vitest";
import { type OpenLedger, openLedger } from "../../src/assistant/ledger/ledger.ts";
import { OfflineLedger } from "../../src/assistant/ledger/offline-ledger.ts";
import type { NewEntry, Receipt } from "../../src/assistant/ledger/port.ts";
import { listTextKeySources, TEXT_KEY_FILE } from "../../src/assistant/ledger/text-master-key.ts";
import { TextProtection } from "../../src/assistant/ledger/text-protection.ts";
import { type Clock, systemClock } from "../../src/base/clock.ts";
import { silentLogger } from "../../src/base/logger.ts";

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

/** Encrypts the texts of a ledger, with a key in the file that the daemons use if there is no better source. */
export async function protectTestLedger(ledger: OpenLedger, dir: string): Promise<void> {
  const sources = (id: string) => listTextKeySources({ dir, environment: {} }, id);
  await using protection = new TextProtection({
    ledger,
    sources,
    clock: systemClock,
    logger: silentLogger,
  });
  await protection.protect();
}

/** The system's clock with an offset that a test can set. */
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
  using offline = openLedgerFiles(dir);
  return offline.verify(against);
}

/** Opens a ledger for reading, with the key of its texts if a file contains it. */
export function openLedgerFiles(dir: string): OfflineLedger {
  const offline = OfflineLedger.open(dir);
  const file = join(dir, TEXT_KEY_FILE);
  if (existsSync(file)) offline.unlockTexts({ state: "key", key: readFileSync(file) });
  return offline;
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
