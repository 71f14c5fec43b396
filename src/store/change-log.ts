import { type Clock, timestamp } from "../base/clock.ts";
import type { Logger } from "../base/logger.ts";
import type { SqliteDatabase } from "../base/sqlite.ts";
import type { Kind } from "../resources/kinds.ts";
import type { EventRecord, StoreChange } from "./store.ts";

/**
 * The number of changes to keep for watchers that reconnect. One server makes a few thousand changes on a busy day. A
 * watcher that missed more has to list again. At about 200 bytes each, the changes need about 2 MB.
 */
export const CHANGES_KEPT_MAX = 10_000;
/** The number of changes between two trims of the table. The table may exceed its limit by this number. */
const TRIM_EVERY = 256;

/**
 * Records changes, and delivers each one to the watchers after its commit. If a watcher makes a change during a
 * delivery, that change is delivered next, so that all watchers see the same order.
 */
export class ChangeLog {
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #insert;
  readonly #trim;
  readonly #selectOldest;
  readonly #selectAfter;
  readonly #watchers = new Set<Watcher>();
  /** Changes of the open transaction. */
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

  /**
   * Records a change. Must run in a transaction. Returns the sequence number of the change, which is the
   * resourceVersion of the changed resource.
   */
  append(change: {
    type: StoreChange["type"];
    kind: Kind | null;
    name: string;
    generation: number;
  }): number {
    return this.#insertChange({ ...change, time: timestamp(this.#clock.now()) });
  }

  /**
   * Records an event. Must run in a transaction. Calls `record` with the sequence number of the change; `record`
   * returns the event with this number.
   */
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

  /** The number of changes of the open transaction. */
  get pendingCount(): number {
    return this.#pending.length;
  }

  /** Forgets the changes of the open transaction, except the first `kept` ones. */
  onRollback(kept: number): void {
    this.#lastSequence -= this.#pending.length - kept;
    this.#pending = this.#pending.slice(0, kept);
  }

  watch(listener: (change: StoreChange) => void): () => void {
    const watcher = { listener, from: this.#lastSequence };
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }

  /**
   * Returns the changes after `sequence`. Returns undefined if some of these were trimmed, or if the sequence does not
   * come from this store.
   */
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
            // The write is already committed, so the other watchers are notified even if one of them fails.
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
  /** The sequence of the last change before the watch began. The watcher gets only later changes. */
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
