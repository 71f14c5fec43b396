import { closeSync, fsyncSync, mkdirSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { join, resolve } from "node:path";
import { type OpenLedger, openLedger } from "../src/assistant/ledger/ledger.ts";
import { OfflineLedger } from "../src/assistant/ledger/offline-ledger.ts";
import { unlockTexts } from "../src/assistant/ledger/offline-texts.ts";
import type { NewEntry } from "../src/assistant/ledger/port.ts";
import { listTextKeySources } from "../src/assistant/ledger/text-master-key.ts";
import { TextProtection } from "../src/assistant/ledger/text-protection.ts";
import { systemClock } from "../src/base/clock.ts";
import { silentLogger } from "../src/base/logger.ts";
import { openDatabase } from "../src/base/sqlite.ts";
import { type Figure, median, percentile, seconds } from "./report.ts";

const CLIENTS = 64;
const RUN_MS = 4_000;
const ROUNDS = 3;

const entry: NewEntry = {
  name: "inference.generate",
  fields: { class: "interactive", messages: 2, model: "tiny", stream: true },
  sealed: { messages: [{ content: "What is the capital of France?", role: "user" }] },
};

/**
 * Compares durable appends of 64 clients with single appends that each have a commit and a flush. Compares the latency
 * of a client with that of one flush. Also verifies `entries` entries. All files are in the working directory, because
 * a /tmp in memory would make flushes cost nothing.
 */
export async function benchLedger(entries: number): Promise<Figure[]> {
  mkdirSync(".berth", { recursive: true });
  const dir = mkdtempSync(resolve(".berth/bench-ledger-"));
  try {
    const rates: number[] = [];
    const singles: number[] = [];
    const p99s: number[] = [];
    const flushes: number[] = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      singles.push(singleCommits(join(dir, `single-${round}.db`)));
      flushes.push(oneFlush(join(dir, "flushed")));
      await using ledger = await openEncrypted(join(dir, `state-${round}`));
      const { perSecond, p99Ms } = await measureClients(ledger);
      rates.push(perSecond);
      p99s.push(p99Ms);
    }
    const [rate, single] = [median(rates), median(singles)];
    const [p99, flush] = [median(p99s), median(flushes)];
    return [
      {
        name: `ledger: durable appends/s, ${CLIENTS} clients`,
        value: rate.toFixed(0),
        floor: `${single.toFixed(0)} (one by one, a flush each)`,
        ratio: `${(rate / single).toFixed(1)}x`,
        aim: ">= 20x",
        isMet: rate / single >= 20,
      },
      {
        name: `ledger: append, p99 of ${CLIENTS} clients`,
        value: `${p99.toFixed(2)} ms`,
        floor: `${flush.toFixed(2)} ms (p99 of one write and flush)`,
        ratio: `${(p99 / flush).toFixed(1)}x`,
        aim: "< 3x",
        isMet: p99 / flush < 3,
      },
      await benchVerify(join(dir, "large"), entries),
    ];
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

/** Opens a new ledger that encrypts its texts, as the daemons do, with a key in a file. */
async function openEncrypted(dir: string): Promise<OpenLedger> {
  const ledger = await openLedger({ dir, clock: systemClock });
  const sources = (id: string) => listTextKeySources({ dir, environment: {} }, id);
  const options = { ledger, sources, clock: systemClock, logger: silentLogger };
  await using protection = new TextProtection(options);
  await protection.protect();
  return ledger;
}

async function measureClients(ledger: OpenLedger): Promise<{ perSecond: number; p99Ms: number }> {
  const took: number[] = [];
  const began = performance.now();
  const clients = Array.from({ length: CLIENTS }, async () => {
    while (performance.now() - began < RUN_MS) {
      const start = performance.now();
      await ledger.append(entry);
      took.push(performance.now() - start);
    }
  });
  await Promise.all(clients);
  const perSecond = (took.length * 1_000) / (performance.now() - began);
  return { perSecond, p99Ms: percentile(took, 0.99) };
}

/**
 * Writes the benchmark's entry again and again with SQLite alone: without the hash tree, the signature and the worker
 * thread of the ledger. Returns the writes per second.
 */
function singleCommits(file: string): number {
  const db = openDatabase({ file, durability: "full" });
  try {
    db.exec("CREATE TABLE entry (seq INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT");
    const add = db.prepare("INSERT INTO entry (body) VALUES (?)");
    const body = JSON.stringify(entry);
    let count = 0;
    const began = performance.now();
    for (; performance.now() - began < RUN_MS; count += 1) add.run(body);
    return (count * 1_000) / (performance.now() - began);
  } finally {
    db.close();
  }
}

/**
 * Repeatedly appends as many bytes as 64 entries need to a file and flushes the file. Returns the 99th percentile of
 * the time for one append with its flush, in milliseconds.
 */
function oneFlush(file: string): number {
  const took: number[] = [];
  const handle = openSync(file, "w");
  const block = Buffer.alloc(64 * 1024, 1);
  try {
    const began = performance.now();
    while (performance.now() - began < RUN_MS / 2) {
      const start = performance.now();
      writeSync(handle, block);
      fsyncSync(handle);
      took.push(performance.now() - start);
    }
  } finally {
    closeSync(handle);
  }
  return percentile(took, 0.99);
}

async function benchVerify(dir: string, entries: number): Promise<Figure> {
  {
    await using ledger = await openEncrypted(dir);
    const piece = 8_192;
    for (let at = 0; at < entries; at += piece)
      await Promise.all(
        Array.from({ length: Math.min(piece, entries - at) }, () => ledger.append(entry)),
      );
  }
  const [began, cpu] = [performance.now(), process.cpuUsage()];
  using offline = OfflineLedger.open(dir);
  await unlockTexts(offline, { dir, environment: {} }, new AbortController().signal);
  const { status, size, unchecked } = offline.verify();
  const tookMs = performance.now() - began;
  const { user, system } = process.cpuUsage(cpu);
  if (unchecked > 0) throw new Error(`${unchecked} texts were not checked`);
  if (status !== "whole") throw new Error(`the ledger that the bench wrote is ${status}`);
  const limitMs = Math.max(1_000, entries / 100);
  return {
    name: `ledger: verify ${size} entries`,
    value: seconds(tookMs),
    floor: "-",
    ratio: `${((tookMs * 1_000) / size).toFixed(1)} us an entry`,
    aim: `< ${seconds(limitMs)}`,
    isMet: tookMs < limitMs,
    notes: [`${seconds((user + system) / 1_000)} of one core`],
  };
}
