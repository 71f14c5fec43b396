import type { DeliveryEvent, WebhookEvent } from "../resources/webhook-events.ts";

/** Receivers of events, and their deliveries. */
export interface WebhookStore {
  /**
   * Creates a webhook. Throws ConflictError `conflict` if there are too many. The secret is stored sealed and is not
   * part of the record.
   */
  create(input: {
    readonly url: string;
    readonly events: readonly WebhookEvent[];
    readonly apps: readonly string[];
    readonly secret: string;
  }): WebhookRecord;
  /** Returns all webhooks, oldest first. */
  list(): WebhookRecord[];
  get(id: string): WebhookRecord | undefined;
  /** Removes the webhook and its deliveries. Returns false if there is no such webhook. */
  remove(id: string): boolean;
  /**
   * Returns the secret that signs requests; undefined if the webhook does not exist any more. Only the sender calls
   * this.
   */
  getSecret(id: string): string | undefined;

  /**
   * Queues a delivery that is due immediately. If the webhook has too many deliveries, the oldest ones are removed;
   * pending ones are removed last.
   */
  enqueue(delivery: {
    readonly id: string;
    readonly webhook: string;
    readonly event: DeliveryEvent;
    readonly app: string | null;
    readonly payload: string;
  }): DeliveryRecord;
  /** Returns deliveries, newest first. */
  listDeliveries(webhook: string, limit: number): DeliveryRecord[];
  getDelivery(id: string): DeliveryRecord | undefined;
  /** Returns the body of a delivery, which is the same at every attempt. */
  getPayload(id: string): string | undefined;
  /** Returns the pending deliveries of all webhooks, oldest first. */
  listPending(): DeliveryRecord[];
  /** Records an attempt. Does nothing if the delivery is gone. */
  recordAttempt(id: string, outcome: DeliveryOutcome): void;
  /** Makes a delivery pending again, with a new set of attempts. Returns false if there is no such delivery. */
  requeue(id: string): boolean;

  /**
   * Returns the text that `setNotice` stored for an App: a record of the notices about it that were already emitted.
   */
  getNotice(app: string): string | undefined;
  /** Stores a record of the notices about an App that were already emitted; undefined removes the record. */
  setNotice(app: string, state: string | undefined): void;
}

export interface WebhookRecord {
  readonly id: string;
  readonly url: string;
  /** The types of the events to send; an empty list means all types. */
  readonly events: readonly WebhookEvent[];
  /** The names of the apps whose events are sent; an empty list means all apps, and events that concern no app. */
  readonly apps: readonly string[];
  readonly createdAt: string;
}

export interface DeliveryRecord {
  /** The id of the delivery. It is the same at every attempt, so that a receiver recognises repetitions. */
  readonly id: string;
  readonly webhook: string;
  readonly event: DeliveryEvent;
  readonly app: string | null;
  /** The state of the delivery, which changes from pending to delivered or to failed. */
  readonly state: "pending" | "delivered" | "failed";
  readonly attempts: number;
  /**
   * Time of the next attempt of a pending delivery, in epoch milliseconds; null if it is due immediately or not
   * pending.
   */
  readonly nextAtMs: number | null;
  /** HTTP status of the last response; null if there was none. */
  readonly status: number | null;
  /** Describes the result of the last attempt to send the delivery; null before the first attempt. */
  readonly message: string | null;
  readonly createdAt: string;
  readonly finishedAt: string | null;
}

export interface DeliveryOutcome {
  readonly state: DeliveryRecord["state"];
  /** Time of the next attempt, if the delivery is pending. */
  readonly nextAtMs: number | null;
  readonly status: number | null;
  readonly message: string;
}
