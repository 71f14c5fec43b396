import { randomBytes } from "node:crypto";
import { type Clock, timestamp } from "../base/clock.ts";
import { ConflictError } from "../base/errors.ts";
import type { SqliteDatabase } from "../base/sqlite.ts";
import type { DeliveryEvent, WebhookEvent } from "../resources/webhook-events.ts";
import type { SqliteSecretValues } from "./secret-values.ts";
import type { Transactions } from "./transactions.ts";
import type {
  DeliveryOutcome,
  DeliveryRecord,
  WebhookRecord,
  WebhookStore,
} from "./webhook-store.ts";

/**
 * The maximum number of webhooks. It limits the number of connections, because each webhook may use its own
 * connection.
 */
export const WEBHOOKS_MAX = 50;
/**
 * The number of deliveries to keep of each webhook. It covers several days of normal operation, or one night with many
 * failures, and needs about 200 KB.
 */
export const DELIVERIES_KEPT_MAX = 200;

export class SqliteWebhookStore implements WebhookStore {
  readonly #clock: Clock;
  readonly #transactions: Transactions;
  readonly #secrets: SqliteSecretValues;
  readonly #insert;
  readonly #all;
  readonly #get;
  readonly #count;
  readonly #secret;
  readonly #remove;
  readonly #selectNotice;
  readonly #upsertNotice;
  readonly #deleteNotice;
  readonly #deliveries: DeliveryStatements;

  constructor(
    db: SqliteDatabase,
    clock: Clock,
    transactions: Transactions,
    vault: SqliteSecretValues,
  ) {
    this.#clock = clock;
    this.#transactions = transactions;
    this.#secrets = vault;
    this.#insert = db.prepare<[WebhookRow & { secret: Buffer }]>(`
      INSERT INTO webhooks (id, url, events, apps, secret, created_at)
      VALUES (@id, @url, @events, @apps, @secret, @created_at)`);
    const columns = "id, url, events, apps, created_at";
    this.#all = db.prepare<[], WebhookRow>(
      `SELECT ${columns} FROM webhooks ORDER BY created_at, id`,
    );
    this.#get = db.prepare<[string], WebhookRow>(`SELECT ${columns} FROM webhooks WHERE id = ?`);
    this.#count = db.prepare<[], number>("SELECT count(*) FROM webhooks").pluck();
    this.#secret = db.prepare<[string], Buffer>("SELECT secret FROM webhooks WHERE id = ?").pluck();
    this.#remove = db.prepare<[string]>("DELETE FROM webhooks WHERE id = ?");
    this.#selectNotice = db
      .prepare<[string], string>("SELECT told FROM app_notices WHERE app = ?")
      .pluck();
    this.#upsertNotice = db.prepare<[string, string]>(
      "INSERT INTO app_notices (app, told) VALUES (?, ?) ON CONFLICT (app) DO UPDATE SET told = excluded.told",
    );
    this.#deleteNotice = db.prepare<[string]>("DELETE FROM app_notices WHERE app = ?");
    this.#deliveries = prepareDeliveryStatements(db);
  }

  create(input: Parameters<WebhookStore["create"]>[0]): WebhookRecord {
    const row: WebhookRow = {
      id: `wh_${randomBytes(8).toString("hex")}`,
      url: input.url,
      events: JSON.stringify(input.events),
      apps: JSON.stringify(input.apps),
      created_at: timestamp(this.#clock.now()),
    };
    this.#transactions.write(() => {
      if ((this.#count.get() ?? 0) >= WEBHOOKS_MAX) {
        throw new ConflictError("conflict", `there are ${WEBHOOKS_MAX} webhooks already`, {
          hint: "delete a webhook first; one webhook can listen to many events and apps",
        });
      }
      this.#insert.run({
        ...row,
        secret: this.#secrets.sealText(getSecretLabel(row.id), input.secret),
      });
    });
    return toWebhookRecord(row);
  }

  list(): WebhookRecord[] {
    return this.#transactions.read(() => this.#all.all().map(toWebhookRecord));
  }

  get(id: string): WebhookRecord | undefined {
    const row = this.#transactions.read(() => this.#get.get(id));
    return row && toWebhookRecord(row);
  }

  remove(id: string): boolean {
    return this.#transactions.write(() => this.#remove.run(id).changes > 0);
  }

  getSecret(id: string): string | undefined {
    const sealed = this.#transactions.read(() => this.#secret.get(id));
    return (
      sealed && this.#secrets.openText(getSecretLabel(id), sealed, `the secret of webhook ${id}`)
    );
  }

  enqueue(delivery: Parameters<WebhookStore["enqueue"]>[0]): DeliveryRecord {
    const created_at = timestamp(this.#clock.now());
    return this.#transactions.write(() => {
      this.#deliveries.insert.run({ ...delivery, created_at });
      this.#deliveries.trim.run({ webhook: delivery.webhook, keep: DELIVERIES_KEPT_MAX });
      const row = this.#deliveries.get.get(delivery.id);
      if (!row) throw new Error("a delivery is missing right after it was written");
      return toDeliveryRecord(row);
    });
  }

  listDeliveries(webhook: string, limit: number): DeliveryRecord[] {
    return this.#transactions.read(() =>
      this.#deliveries.list.all(webhook, limit).map(toDeliveryRecord),
    );
  }

  getDelivery(id: string): DeliveryRecord | undefined {
    const row = this.#transactions.read(() => this.#deliveries.get.get(id));
    return row && toDeliveryRecord(row);
  }

  getPayload(id: string): string | undefined {
    return this.#transactions.read(() => this.#deliveries.payload.get(id));
  }

  listPending(): DeliveryRecord[] {
    return this.#transactions.read(() => this.#deliveries.pending.all().map(toDeliveryRecord));
  }

  /**
   * Records the outcome of one attempt in a lazy write (`writeLazily`). If a power cut loses the record, the delivery
   * is sent again, which receivers must expect anyway.
   */
  recordAttempt(id: string, outcome: DeliveryOutcome): void {
    const finishedAt = outcome.state === "pending" ? null : timestamp(this.#clock.now());
    this.#transactions.writeLazily(() =>
      this.#deliveries.attempted.run({ id, ...outcome, finishedAt }),
    );
  }

  requeue(id: string): boolean {
    return this.#transactions.write(() => this.#deliveries.again.run(id).changes > 0);
  }

  getNotice(app: string): string | undefined {
    return this.#transactions.read(() => this.#selectNotice.get(app));
  }

  setNotice(app: string, state: string | undefined): void {
    this.#transactions.writeLazily(() => {
      if (state === undefined) this.#deleteNotice.run(app);
      else this.#upsertNotice.run(app, state);
    });
  }
}

const DELIVERY_COLUMNS =
  "id, webhook, event, app, state, attempts, next_at_ms, status, message, created_at, finished_at";

type DeliveryStatements = ReturnType<typeof prepareDeliveryStatements>;

function prepareDeliveryStatements(db: SqliteDatabase) {
  return {
    insert: db.prepare<[Parameters<WebhookStore["enqueue"]>[0] & { created_at: string }]>(`
      INSERT INTO webhook_deliveries
        (id, webhook, event, app, payload, state, attempts, created_at)
      VALUES (@id, @webhook, @event, @app, @payload, 'pending', 0, @created_at)`),
    // Removes sent deliveries before pending ones.
    trim: db.prepare<[{ webhook: string; keep: number }]>(`
      DELETE FROM webhook_deliveries WHERE number IN (
        SELECT number FROM webhook_deliveries WHERE webhook = @webhook
        ORDER BY state = 'pending' DESC, number DESC LIMIT -1 OFFSET @keep)`),
    get: db.prepare<[string], DeliveryRow>(
      `SELECT ${DELIVERY_COLUMNS} FROM webhook_deliveries WHERE id = ?`,
    ),
    payload: db
      .prepare<[string], string>("SELECT payload FROM webhook_deliveries WHERE id = ?")
      .pluck(),
    list: db.prepare<[string, number], DeliveryRow>(
      `SELECT ${DELIVERY_COLUMNS} FROM webhook_deliveries WHERE webhook = ? ORDER BY number DESC LIMIT ?`,
    ),
    pending: db.prepare<[], DeliveryRow>(
      `SELECT ${DELIVERY_COLUMNS} FROM webhook_deliveries WHERE state = 'pending' ORDER BY number`,
    ),
    attempted: db.prepare<[DeliveryOutcome & { id: string; finishedAt: string | null }]>(`
      UPDATE webhook_deliveries SET state = @state, attempts = attempts + 1, next_at_ms = @nextAtMs,
        status = @status, message = @message, finished_at = @finishedAt
      WHERE id = @id`),
    again: db.prepare<[string]>(`
      UPDATE webhook_deliveries SET state = 'pending', attempts = 0, next_at_ms = NULL,
        finished_at = NULL
      WHERE id = ?`),
  };
}

interface WebhookRow {
  id: string;
  url: string;
  events: string;
  apps: string;
  created_at: string;
}

interface DeliveryRow {
  id: string;
  webhook: string;
  event: DeliveryEvent;
  app: string | null;
  state: DeliveryRecord["state"];
  attempts: number;
  next_at_ms: number | null;
  status: number | null;
  message: string | null;
  created_at: string;
  finished_at: string | null;
}

/** Returns the label with which the secret is sealed. */
function getSecretLabel(id: string): string {
  return `webhook ${id}`;
}

function toWebhookRecord(row: WebhookRow): WebhookRecord {
  const events: WebhookEvent[] = JSON.parse(row.events);
  const apps: string[] = JSON.parse(row.apps);
  return { id: row.id, url: row.url, events, apps, createdAt: row.created_at };
}

function toDeliveryRecord(row: DeliveryRow): DeliveryRecord {
  return {
    id: row.id,
    webhook: row.webhook,
    event: row.event,
    app: row.app,
    state: row.state,
    attempts: row.attempts,
    nextAtMs: row.next_at_ms,
    status: row.status,
    message: row.message,
    createdAt: row.created_at,
    finishedAt: row.finished_at,
  };
}
