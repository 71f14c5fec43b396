import type { DeliveryEvent, WebhookEvent } from "../resources/webhook-events.ts";

/** Receivers of events, and what was sent to each. */
export interface WebhookStore {
  /** Throws ConflictError `conflict` where there are too many already. The secret is sealed, and never part of a record. */
  create(input: {
    readonly url: string;
    readonly events: readonly WebhookEvent[];
    readonly apps: readonly string[];
    readonly secret: string;
  }): WebhookRecord;
  /** The oldest first. */
  list(): WebhookRecord[];
  get(id: string): WebhookRecord | undefined;
  /** Takes its deliveries away too. False where there was none. */
  remove(id: string): boolean;
  /** What requests are signed with; undefined where the webhook is gone. Only the sender calls this. */
  getSecret(id: string): string | undefined;

  /** Queues a delivery, due at once. The oldest go where a webhook has more than are kept; those that wait go last. */
  enqueue(delivery: {
    readonly id: string;
    readonly webhook: string;
    readonly event: DeliveryEvent;
    readonly app: string | null;
    readonly payload: string;
  }): DeliveryRecord;
  /** Newest first. */
  listDeliveries(webhook: string, limit: number): DeliveryRecord[];
  getDelivery(id: string): DeliveryRecord | undefined;
  /** The body of a delivery, as it is sent each time. */
  getPayload(id: string): string | undefined;
  /** Those that are to be sent still, oldest first; of all webhooks that are there. */
  listPending(): DeliveryRecord[];
  /** Notes an attempt. Does nothing for a delivery that is gone. */
  recordAttempt(id: string, outcome: DeliveryOutcome): void;
  /** Sends it anew, with all of its attempts. False where there is none. */
  requeue(id: string): boolean;

  /** What receivers were told of an App, as `tell` left it. */
  getNotice(app: string): string | undefined;
  /** Undefined: forgets it. */
  setNotice(app: string, told: string | undefined): void;
}

export interface WebhookRecord {
  readonly id: string;
  readonly url: string;
  /** Empty: all. */
  readonly events: readonly WebhookEvent[];
  /** Empty: all, and what is about no app. */
  readonly apps: readonly string[];
  readonly createdAt: string;
}

export interface DeliveryRecord {
  /** Stays the same over all attempts, so that a receiver can tell a repetition. */
  readonly id: string;
  readonly webhook: string;
  readonly event: DeliveryEvent;
  readonly app: string | null;
  /** pending -> delivered or failed. */
  readonly state: "pending" | "delivered" | "failed";
  readonly attempts: number;
  /** When a pending one is due, in epoch milliseconds; null: at once, or it is not pending. */
  readonly nextAtMs: number | null;
  /** The status of the last answer; null where there was none. */
  readonly status: number | null;
  /** How the last attempt went. */
  readonly message: string | null;
  readonly createdAt: string;
  readonly finishedAt: string | null;
}

export interface DeliveryOutcome {
  readonly state: DeliveryRecord["state"];
  /** For pending: when to try again. */
  readonly nextAtMs: number | null;
  readonly status: number | null;
  readonly message: string;
}
