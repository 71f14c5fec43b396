import { type Clock, timestamp } from "../base/clock.ts";
import { BerthError } from "../base/errors.ts";
import type { SqliteDatabase } from "../base/sqlite.ts";
import type { Kind } from "../resources/kinds.ts";
import type { ChangeLog } from "./change-log.ts";
import type { EventLog, EventRecord } from "./store.ts";
import type { Transactions } from "./transactions.ts";

/** An event that repeats within this time increments the count of the earlier one, as in Kubernetes. */
export const EVENT_WINDOW_MS = 10 * 60_000;
/**
 * The maximum number of events of a resource: enough to reconstruct a night of failures. It keeps a noisy app from
 * displacing the events of others.
 */
export const EVENTS_PER_RESOURCE_MAX = 200;
/** The maximum number of events of all resources together: 50 apps with full histories, about 5 MB. */
export const EVENTS_KEPT_MAX = 10_000;
const TRIM_EVERY = 64;
/** The maximum length of an event's message, which may quote an engine or log lines. The rest is cut off. */
export const EVENT_MESSAGE_LENGTH_MAX = 4_096;

export class SqliteEventLog implements EventLog {
  readonly #clock: Clock;
  readonly #transactions: Transactions;
  readonly #changes: ChangeLog;
  readonly #latest;
  readonly #insert;
  readonly #countUp;
  readonly #trimResource;
  readonly #trimAll;
  readonly #select;

  constructor(db: SqliteDatabase, clock: Clock, transactions: Transactions, changes: ChangeLog) {
    this.#clock = clock;
    this.#transactions = transactions;
    this.#changes = changes;
    this.#latest = db.prepare<[EventIdentity], EventRow>(`
      SELECT * FROM events WHERE name = @name AND kind IS @kind AND type = @type
        AND reason = @reason AND message = @message
      ORDER BY touched DESC LIMIT 1`);
    this.#insert = db.prepare<[EventIdentity & { time: string; touched: number }]>(`
      INSERT INTO events (kind, name, type, reason, message, count, first_time, last_time, touched)
      VALUES (@kind, @name, @type, @reason, @message, 1, @time, @time, @touched)`);
    this.#countUp = db.prepare<[string, number, number]>(
      "UPDATE events SET count = count + 1, last_time = ?, touched = ? WHERE id = ?",
    );
    this.#trimResource = db.prepare<[{ name: string; kind: string | null; keep: number }]>(`
      DELETE FROM events WHERE name = @name AND kind IS @kind AND touched <= (
        SELECT touched FROM events WHERE name = @name AND kind IS @kind
        ORDER BY touched DESC LIMIT 1 OFFSET @keep)`);
    this.#trimAll = db.prepare<[number]>(`
      DELETE FROM events WHERE touched <= (
        SELECT touched FROM events ORDER BY touched DESC LIMIT 1 OFFSET ?)`);
    this.#select = db.prepare<
      [{ kind: string | null; name: string | null; limit: number }],
      EventRow
    >(`
      SELECT * FROM events
      WHERE (@kind IS NULL OR kind = @kind) AND (@name IS NULL OR name = @name)
      ORDER BY touched DESC LIMIT @limit`);
  }

  record(event: EventIdentity): EventRecord {
    const nowMs = this.#clock.now();
    const time = timestamp(nowMs);
    const identity = {
      kind: event.kind,
      name: event.name,
      type: event.type,
      reason: event.reason,
      message: truncateMessage(event.message),
    };
    try {
      return this.#write(identity, nowMs, time);
    } catch (error) {
      // The action that the event reports, such as a restart, must not fail because of a full disk. The event is also
      // in Berth's log.
      if (this.#transactions.isActive || !isDiskFull(error)) throw error;
      return { id: 0, ...identity, count: 1, firstTime: time, lastTime: time };
    }
  }

  #write(identity: EventIdentity, nowMs: number, time: string): EventRecord {
    const { kind, name } = identity;
    return this.#transactions.writeLazily(() =>
      this.#changes.appendEvent({ kind, name, time }, (touched) => {
        const last = this.#latest.get(identity);
        if (last && nowMs - Date.parse(last.last_time) <= EVENT_WINDOW_MS) {
          this.#countUp.run(time, touched, last.id);
          return toEventRecord({ ...last, count: last.count + 1, last_time: time });
        }
        const { lastInsertRowid } = this.#insert.run({ ...identity, time, touched });
        const id = Number(lastInsertRowid);
        this.#trimResource.run({
          name: identity.name,
          kind: identity.kind,
          keep: EVENTS_PER_RESOURCE_MAX,
        });
        if (id % TRIM_EVERY === 0) this.#trimAll.run(EVENTS_KEPT_MAX);
        return { id, ...identity, count: 1, firstTime: time, lastTime: time };
      }),
    );
  }

  list(filter: { kind?: Kind; name?: string; limit: number }): EventRecord[] {
    return this.#transactions.read(() =>
      this.#select
        .all({ kind: filter.kind ?? null, name: filter.name ?? null, limit: filter.limit })
        .map(toEventRecord),
    );
  }
}

function isDiskFull(error: unknown): boolean {
  return error instanceof BerthError && error.code === "disk_full";
}

type EventIdentity = Parameters<EventLog["record"]>[0];

interface EventRow extends EventIdentity {
  id: number;
  count: number;
  first_time: string;
  last_time: string;
}

function toEventRecord(row: EventRow): EventRecord {
  return {
    id: row.id,
    kind: row.kind,
    name: row.name,
    type: row.type,
    reason: row.reason,
    message: row.message,
    count: row.count,
    firstTime: row.first_time,
    lastTime: row.last_time,
  };
}

function truncateMessage(message: string): string {
  return message.length <= EVENT_MESSAGE_LENGTH_MAX
    ? message
    : `${message.slice(0, EVENT_MESSAGE_LENGTH_MAX - 1)}…`;
}
