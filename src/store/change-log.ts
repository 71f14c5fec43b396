import { type Clock, timestamp } from "../base/clock.ts";
import type { Logger } from "../base/logger.ts";
import type { SqliteDatabase } from "../base/sqlite.ts";
import type { Kind } from "../resources/kinds.ts";
import type { EventRecord, StoreChange } from "./store.ts";

/**
 * How many changes are kept for watchers that come back. A busy day of one server is a few thousand;
 * whoever was away for longer lists again. At some 200 bytes each this stays near 2 MB.
 */
export const CHANGES_KEPT_MAX = 10_000;
/** Trimming is spread: once in so many changes, so that the table may be this much longer. */
const TRIM_EVERY = 256;

/**
 * The record of changes, and the delivery of each one to the watchers once it is committed. A change
 * made by a watcher while it is being told of another one is told after it: the order is one for all.
 */
export class ChangeLog {
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #insert;
  readonly #trim;
  readonly #selectOldest;
  readonly #selectAfter;
  readonly #watchers = new Set<Watcher>();
  /** Written in the transaction that is open now. */
  #pending: StoreChange[] = [];
  #undelivered: StoreChange[] = [];
  #delivering = false;
  #lastSequence: number;

  constructor(db: SqliteDatabase, clock: Clock, logger: Logger) {
    this.#clock = clock;
    this.#logger = logger;
    this.#insert = db.prepare<[string, string | null, string, number, string, string | null]>(
      "INSERT INTO changes (type, kind, name, generation, time, event) VALUES (?, ?, ?, ?, ?, ?)",
    );
    this.#trim = db.prepare<[number]>("DELETE FROM changes WHERE sequence <= ?");
    this.#selectOldest = db.prepare<[], number | null>("SELECT min(sequence) FROM changes").pluck();
    this.#selectAfter = db.prepare<[number, number], ChangeRow>(
      "SELECT * FROM changes WHERE sequence > ? ORDER BY sequence LIMIT ?",
    );
    const last = db
      .prepare<[], number>("SELECT seq FROM sqlite_sequence WHERE name = 'changes'")
      .pluck()
      .get();
    this.#lastSequence = last ?? 0;
  }

  get lastSequence(): number {
    return this.#lastSequence;
  }

  /** Inside a transaction only. Returns the sequence, which is the resource version of what changed. */
  append(change: {
    type: StoreChange["type"];
    kind: Kind | null;
    name: string;
    generation: number;
  }): number {
    return this.#insertChange({ ...change, time: timestamp(this.#clock.now()) });
  }

  /** Inside a transaction only. `record` gets the sequence and returns the event as it then stands. */
  appendEvent(
    source: { kind: Kind | null; name: string; time: string },
    record: (sequence: number) => EventRecord,
  ): EventRecord {
    const event = record(this.#lastSequence + 1);
    this.#insertChange({ type: "event", generation: 0, ...source, event });
    return event;
  }

  onCommit(): void {
    this.#undelivered.push(...this.#pending);
    this.#pending = [];
    this.#deliver();
  }

  onRollback(): void {
    this.#lastSequence -= this.#pending.length;
    this.#pending = [];
  }

  watch(listener: (change: StoreChange) => void): () => void {
    const watcher = { listener, from: this.#lastSequence };
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }

  /** Undefined where changes after `sequence` have been trimmed, or where `sequence` is not from this store. */
  since(sequence: number, limit: number): readonly StoreChange[] | undefined {
    if (sequence > this.#lastSequence || sequence < 0) return undefined;
    const oldest = this.#selectOldest.get() ?? this.#lastSequence + 1;
    if (sequence < oldest - 1) return undefined;
    return this.#selectAfter.all(sequence, limit).map(parseChangeRow);
  }

  close(): void {
    this.#watchers.clear();
    this.#undelivered = [];
  }

  #insertChange(change: Omit<StoreChange, "sequence">): number {
    const { lastInsertRowid } = this.#insert.run(
      change.type,
      change.kind,
      change.name,
      change.generation,
      change.time,
      change.event ? JSON.stringify(change.event) : null,
    );
    const sequence = Number(lastInsertRowid);
    this.#lastSequence = sequence;
    this.#pending.push(Object.freeze({ sequence, ...change }));
    if (sequence % TRIM_EVERY === 0) this.#trim.run(sequence - CHANGES_KEPT_MAX);
    return sequence;
  }

  #deliver(): void {
    if (this.#delivering) return;
    this.#delivering = true;
    try {
      for (
        let change = this.#undelivered.shift();
        change !== undefined;
        change = this.#undelivered.shift()
      ) {
        for (const { listener, from } of this.#watchers) {
          if (change.sequence <= from) continue;
          try {
            listener(change);
          } catch (err) {
            // The write is committed and the other watchers still wait: neither may suffer.
            this.#logger.error({ err, sequence: change.sequence }, "a watcher of the store failed");
          }
        }
      }
    } finally {
      this.#delivering = false;
    }
  }
}

interface Watcher {
  readonly listener: (change: StoreChange) => void;
  /** The last change that was there when the watch began: it gets what comes after. */
  readonly from: number;
}

interface ChangeRow {
  sequence: number;
  type: StoreChange["type"];
  kind: Kind | null;
  name: string;
  generation: number;
  time: string;
  event: string | null;
}

function parseChangeRow(row: ChangeRow): StoreChange {
  const { event, ...change } = row;
  if (event === null) return change;
  const parsed: EventRecord = JSON.parse(event);
  return { ...change, event: parsed };
}
