import { randomBytes } from "node:crypto";
import { type Clock, timestamp } from "../base/clock.ts";
import { ConflictError } from "../base/errors.ts";
import type { SqliteDatabase } from "../base/sqlite.ts";
import type { DeliveryEvent, WebhookEvent } from "../resources/webhook-events.ts";
import type { SecretVault } from "./secret-vault.ts";
import type { Transactions } from "./transactions.ts";
import type {
  DeliveryOutcome,
  DeliveryRecord,
  WebhookRecord,
  WebhookStore,
} from "./webhook-records.ts";

/** Each has a connection of its own while something is sent: enough for one server, and bounded. */
export const WEBHOOKS_MAX = 50;
/** Days of a calm server, and a bad night of a busy one; near 200 KB for each webhook. */
export const DELIVERIES_KEPT_MAX = 200;

export class SqliteWebhookStore implements WebhookStore {
  readonly #clock: Clock;
  readonly #transactions: Transactions;
  readonly #vault: SecretVault;
  readonly #insert;
  readonly #all;
  readonly #get;
  readonly #count;
  readonly #secret;
  readonly #remove;
  readonly #told;
  readonly #tell;
  readonly #forget;
  readonly #rows: DeliveryStatements;

  constructor(db: SqliteDatabase, clock: Clock, transactions: Transactions, vault: SecretVault) {
    this.#clock = clock;
    this.#transactions = transactions;
    this.#vault = vault;
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
    this.#told = db.prepare<[string], string>("SELECT told FROM app_notices WHERE app = ?").pluck();
    this.#tell = db.prepare<[string, string]>(
      "INSERT INTO app_notices (app, told) VALUES (?, ?) ON CONFLICT (app) DO UPDATE SET told = excluded.told",
    );
    this.#forget = db.prepare<[string]>("DELETE FROM app_notices WHERE app = ?");
    this.#rows = deliveryStatements(db);
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
          hint: "delete one first; one webhook can listen to many events and apps",
        });
      }
      this.#insert.run({ ...row, secret: this.#vault.sealText(placeOf(row.id), input.secret) });
    });
    return webhookOf(row);
  }

  list(): WebhookRecord[] {
    return this.#transactions.read(() => this.#all.all().map(webhookOf));
  }

  get(id: string): WebhookRecord | undefined {
    const row = this.#transactions.read(() => this.#get.get(id));
    return row && webhookOf(row);
  }

  remove(id: string): boolean {
    return this.#transactions.write(() => this.#remove.run(id).changes > 0);
  }

  secretOf(id: string): string | undefined {
    const sealed = this.#transactions.read(() => this.#secret.get(id));
    return sealed && this.#vault.openText(placeOf(id), sealed, `the secret of webhook ${id}`);
  }

  enqueue(delivery: Parameters<WebhookStore["enqueue"]>[0]): DeliveryRecord {
    const created_at = timestamp(this.#clock.now());
    return this.#transactions.write(() => {
      this.#rows.insert.run({ ...delivery, created_at });
      this.#rows.trim.run({ webhook: delivery.webhook, keep: DELIVERIES_KEPT_MAX });
      const row = this.#rows.get.get(delivery.id);
      if (!row) throw new Error("a delivery that was just written is not there");
      return deliveryOf(row);
    });
  }

  deliveries(webhook: string, limit: number): DeliveryRecord[] {
    return this.#transactions.read(() => this.#rows.list.all(webhook, limit).map(deliveryOf));
  }

  delivery(id: string): DeliveryRecord | undefined {
    const row = this.#transactions.read(() => this.#rows.get.get(id));
    return row && deliveryOf(row);
  }

  payload(id: string): string | undefined {
    return this.#transactions.read(() => this.#rows.payload.get(id));
  }

  pending(): DeliveryRecord[] {
    return this.#transactions.read(() => this.#rows.pending.all().map(deliveryOf));
  }

  /** Lazily: what a power cut forgets of this is sent once more, which receivers have to expect anyway. */
  attempted(id: string, outcome: DeliveryOutcome): void {
    const finishedAt = outcome.state === "pending" ? null : timestamp(this.#clock.now());
    this.#transactions.writeLazily(() => this.#rows.attempted.run({ id, ...outcome, finishedAt }));
  }

  again(id: string): boolean {
    return this.#transactions.write(() => this.#rows.again.run(id).changes > 0);
  }

  told(app: string): string | undefined {
    return this.#transactions.read(() => this.#told.get(app));
  }

  tell(app: string, told: string | undefined): void {
    this.#transactions.writeLazily(() => {
      if (told === undefined) this.#forget.run(app);
      else this.#tell.run(app, told);
    });
  }
}

const COLUMNS =
  "id, webhook, event, app, state, attempts, next_at_ms, status, message, created_at, finished_at";

type DeliveryStatements = ReturnType<typeof deliveryStatements>;

function deliveryStatements(db: SqliteDatabase) {
  return {
    insert: db.prepare<[Parameters<WebhookStore["enqueue"]>[0] & { created_at: string }]>(`
      INSERT INTO webhook_deliveries
        (id, webhook, event, app, payload, state, attempts, created_at)
      VALUES (@id, @webhook, @event, @app, @payload, 'pending', 0, @created_at)`),
    // Those that have been sent go before those that wait.
    trim: db.prepare<[{ webhook: string; keep: number }]>(`
      DELETE FROM webhook_deliveries WHERE number IN (
        SELECT number FROM webhook_deliveries WHERE webhook = @webhook
        ORDER BY state = 'pending' DESC, number DESC LIMIT -1 OFFSET @keep)`),
    get: db.prepare<[string], DeliveryRow>(
      `SELECT ${COLUMNS} FROM webhook_deliveries WHERE id = ?`,
    ),
    payload: db
      .prepare<[string], string>("SELECT payload FROM webhook_deliveries WHERE id = ?")
      .pluck(),
    list: db.prepare<[string, number], DeliveryRow>(
      `SELECT ${COLUMNS} FROM webhook_deliveries WHERE webhook = ? ORDER BY number DESC LIMIT ?`,
    ),
    pending: db.prepare<[], DeliveryRow>(
      `SELECT ${COLUMNS} FROM webhook_deliveries WHERE state = 'pending' ORDER BY number`,
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

/** Where the secret stands, which it is sealed to. */
function placeOf(id: string): string {
  return `webhook ${id}`;
}

function webhookOf(row: WebhookRow): WebhookRecord {
  const events: WebhookEvent[] = JSON.parse(row.events);
  const apps: string[] = JSON.parse(row.apps);
  return { id: row.id, url: row.url, events, apps, createdAt: row.created_at };
}

function deliveryOf(row: DeliveryRow): DeliveryRecord {
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
