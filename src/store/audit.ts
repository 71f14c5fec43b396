import { type Clock, timestamp } from "../base/clock.ts";
import type { SqliteDatabase } from "../base/sqlite.ts";
import type { Kind } from "../resources/kinds.ts";
import type { AuditEntry, AuditLog, FieldChange } from "./store.ts";
import type { Transactions } from "./transactions.ts";

/** The number of audit entries to keep: months of work on one server. At about 1 KB an entry this is about 20 MB. */
export const AUDIT_KEPT_MAX = 20_000;
const TRIM_EVERY = 64;
/** The maximum length of a value. Longer values are truncated, so that entries stay readable and small. */
export const AUDIT_VALUE_LENGTH_MAX = 2_048;
/** The maximum number of changed fields in an audit entry. A last item then gives the number of the others. */
export const AUDIT_CHANGES_MAX = 200;

export class SqliteAuditLog implements AuditLog {
  readonly #clock: Clock;
  readonly #transactions: Transactions;
  readonly #insert;
  readonly #trim;
  readonly #select;

  constructor(db: SqliteDatabase, clock: Clock, transactions: Transactions) {
    this.#clock = clock;
    this.#transactions = transactions;
    this.#insert = db.prepare<
      [string, string, string | null, string, string | null, string, string]
    >(
      "INSERT INTO audit (time, actor, request_id, action, kind, name, changes) VALUES (?, ?, ?, ?, ?, ?, ?)",
    );
    this.#trim = db.prepare<[number]>("DELETE FROM audit WHERE id <= ?");
    this.#select = db.prepare<
      [{ kind: string | null; name: string | null; before: number | null; limit: number }],
      AuditRow
    >(`
      SELECT * FROM audit
      WHERE (@kind IS NULL OR kind = @kind) AND (@name IS NULL OR name = @name)
        AND (@before IS NULL OR id < @before)
      ORDER BY id DESC LIMIT @limit`);
  }

  append(entry: Omit<AuditEntry, "id" | "time">): void {
    this.#transactions.write(() => {
      const { lastInsertRowid } = this.#insert.run(
        timestamp(this.#clock.now()),
        entry.actor,
        entry.requestId,
        entry.action,
        entry.kind,
        entry.name,
        JSON.stringify(limitChanges(entry.changes)),
      );
      const id = Number(lastInsertRowid);
      if (id % TRIM_EVERY === 0) this.#trim.run(id - AUDIT_KEPT_MAX);
    });
  }

  list(filter: { kind?: Kind; name?: string; limit: number; before?: number }): AuditEntry[] {
    return this.#transactions.read(() =>
      this.#select
        .all({
          kind: filter.kind ?? null,
          name: filter.name ?? null,
          before: filter.before ?? null,
          limit: filter.limit,
        })
        .map((row) => ({
          id: row.id,
          time: row.time,
          actor: row.actor,
          requestId: row.request_id,
          action: row.action,
          kind: row.kind,
          name: row.name,
          changes: parseChanges(row.changes),
        })),
    );
  }
}

interface AuditRow {
  id: number;
  time: string;
  actor: string;
  request_id: string | null;
  action: AuditEntry["action"];
  kind: Kind | null;
  name: string;
  changes: string;
}

/**
 * Parses the changes of an entry. JSON cannot represent undefined, so a missing `before` or `after` becomes undefined
 * again.
 */
function parseChanges(text: string): FieldChange[] {
  const changes: Partial<FieldChange>[] = JSON.parse(text);
  return changes.map(({ path = "", before, after }) => ({ path, before, after }));
}

function limitChanges(changes: readonly FieldChange[]): FieldChange[] {
  const kept = changes.slice(0, AUDIT_CHANGES_MAX).map((change) => ({
    path: change.path,
    before: truncateValue(change.before),
    after: truncateValue(change.after),
  }));
  const left = changes.length - kept.length;
  if (left > 0) kept.push({ path: "", before: undefined, after: `and ${left} more fields` });
  return kept;
}

function truncateValue(value: unknown): unknown {
  if (value === undefined) return undefined;
  const text = typeof value === "string" ? value : JSON.stringify(value);
  if (text === undefined || text.length <= AUDIT_VALUE_LENGTH_MAX) return value;
  return `${text.slice(0, AUDIT_VALUE_LENGTH_MAX)}… (${text.length} characters)`;
}
