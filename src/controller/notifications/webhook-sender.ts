import { createHmac, randomUUID } from "node:crypto";
import { type Clock, timestamp } from "../../base/clock.ts";
import { getErrorMessage, isAbortError, NotFoundError } from "../../base/errors.ts";
import type { Logger } from "../../base/logger.ts";
import { parseRetryAfter } from "../../base/retry-after.ts";
import { TaskGroup } from "../../base/task-group.ts";
import type { DeliveryEvent } from "../../resources/webhook-events.ts";
import type { DeliveryOutcome, DeliveryRecord, Store, WebhookRecord } from "../../store/store.ts";
import { chooseNextDelivery } from "./delivery-order.ts";
import { retryWaitMs } from "./delivery-retry.ts";
import { NoticeScanner, type ResourceNotice } from "./notice-scanner.ts";
import type { Webhooks } from "./port.ts";
import { type PostResponse, postWebhook } from "./webhook-post.ts";

/** The pause of all deliveries after the store has failed, for example because of a full disk. */
const STORE_RETRY_MS = 30_000;
const ANSWER_LENGTH_MAX = 200;
const NEVER = Number.POSITIVE_INFINITY;

export interface WebhookSenderOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The version of Berth, for the User-Agent. */
  readonly version: string;
  /** Returns a random number from 0 to 1, to spread attempts. */
  readonly random: () => number;
}

/**
 * Sends notices to webhooks. A delivery is written to the store before it is sent, so that it is sent at least once
 * even if Berth crashes. Each webhook gets only one delivery and one test at a time. A slow receiver therefore delays
 * only its own deliveries.
 */
export class WebhookSender implements Webhooks, AsyncDisposable {
  readonly #options: WebhookSenderOptions;
  readonly #logger: Logger;
  readonly #tasks: TaskGroup;
  readonly #noticeScanner: NoticeScanner;
  /** The lanes (see `getLane`) with a delivery in progress. */
  readonly #busy = new Set<string>();
  /** The time, in epoch milliseconds, before which no delivery starts because the store has failed. */
  #pausedUntilMs = 0;
  /** The time when the next delivery may be due, in epoch milliseconds; 0 if it has to be read from the store. */
  #sendAtMs = 0;
  #isStarted = false;
  #isCheckScheduled = false;
  #cancelTimer: () => void = () => {};
  #unwatch: () => void = () => {};

  constructor(options: WebhookSenderOptions) {
    this.#options = options;
    this.#logger = options.logger.child({ room: "webhooks" });
    this.#tasks = new TaskGroup((error, task) =>
      this.#logger.error({ task, err: getErrorMessage(error) }, "a background task failed"),
    );
    this.#noticeScanner = new NoticeScanner({
      ...options,
      logger: this.#logger,
      onNotice: (occurrence) => this.#enqueue(occurrence),
    });
  }

  /** Follows the store from now on, and sends deliveries that an earlier Berth process has left. */
  start(): void {
    this.#isStarted = true;
    this.#unwatch = this.#options.store.watch((change) => {
      if (change.type === "event" || change.kind === "App") this.#scheduleCheck();
    });
    this.#scheduleCheck();
  }

  test(webhook: string): DeliveryRecord {
    const found = this.#getWebhook(webhook);
    const delivery = this.#enqueueDelivery(found, "test", {
      app: null,
      message: "a user requested this test of the webhook",
      time: timestamp(this.#options.clock.now()),
    });
    this.#scheduleSend();
    return delivery;
  }

  redeliver(webhook: string, delivery: string): DeliveryRecord {
    const { webhooks } = this.#options.store;
    this.#getWebhook(webhook);
    const found = webhooks.getDelivery(delivery);
    if (found?.webhook !== webhook)
      throw new NotFoundError(
        `webhook ${webhook} has no such delivery`,
        `berth webhooks deliveries ${webhook} lists the deliveries`,
      );
    webhooks.requeue(delivery);
    this.#scheduleSend();
    return webhooks.getDelivery(delivery) ?? found;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#unwatch();
    this.#cancelTimer();
    await this.#tasks[Symbol.asyncDispose]();
  }

  #getWebhook(id: string): WebhookRecord {
    const found = this.#options.store.webhooks.get(id);
    if (!found) throw new NotFoundError("there is no such webhook", "berth webhooks lists them");
    return found;
  }

  #scheduleSend(): void {
    this.#sendAtMs = 0;
    this.#scheduleCheck();
  }

  /**
   * Schedules one check for all changes of this turn of the event loop, so that writes to the store are not delayed.
   */
  #scheduleCheck(): void {
    if (this.#isCheckScheduled || !this.#isStarted) return;
    this.#isCheckScheduled = true;
    setImmediate(() => {
      this.#isCheckScheduled = false;
      if (!this.#tasks.signal.aborted) this.#check();
    });
  }

  #check(): void {
    const { clock } = this.#options;
    this.#cancelTimer();
    const nowMs = clock.now();
    const waits: number[] = [];
    if (nowMs < this.#pausedUntilMs) waits.push(this.#pausedUntilMs);
    else {
      try {
        this.#noticeScanner.scan();
        if (nowMs >= this.#sendAtMs) this.#sendAtMs = this.#sendDue(nowMs);
        waits.push(this.#sendAtMs, this.#noticeScanner.recheckAt);
      } catch (error) {
        waits.push(this.#pauseAfterStoreFailure(error));
      }
    }
    const waitMs = Math.max(0, Math.min(...waits) - nowMs);
    if (waitMs !== NEVER) this.#cancelTimer = clock.setTimer(waitMs, () => this.#scheduleCheck());
  }

  /** Starts due deliveries. Returns the time when the next one is due, in epoch milliseconds. */
  #sendDue(nowMs: number): number {
    const { webhooks } = this.#options.store;
    const queues = new Map<string, DeliveryRecord[]>();
    for (const delivery of webhooks.listPending()) {
      const lane = getLane(delivery);
      queues.set(lane, [...(queues.get(lane) ?? []), delivery]);
    }
    let sendAtMs = NEVER;
    for (const [id, queue] of queues) {
      if (this.#busy.has(id)) continue;
      const next = chooseNextDelivery(queue, nowMs);
      if (next.type === "wait") sendAtMs = Math.min(sendAtMs, next.untilMs);
      if (next.type !== "send") continue;
      const webhook = webhooks.get(next.delivery.webhook);
      if (!webhook) continue;
      this.#busy.add(id);
      this.#tasks.run("webhook delivery", async (signal) => {
        try {
          await this.#send(webhook, next.delivery, signal);
        } finally {
          this.#busy.delete(id);
          this.#scheduleSend();
        }
      });
    }
    return sendAtMs;
  }

  async #send(webhook: WebhookRecord, delivery: DeliveryRecord, signal: AbortSignal) {
    const { webhooks } = this.#options.store;
    let outcome: DeliveryOutcome;
    try {
      outcome = await this.#attempt(webhook, delivery, signal);
    } catch (error) {
      if (signal.aborted && isAbortError(error)) throw error;
      outcome = this.#buildFailedOutcome(delivery, null, getErrorMessage(error), undefined);
    }
    if (signal.aborted) return;
    try {
      webhooks.recordAttempt(delivery.id, outcome);
    } catch (error) {
      this.#pauseAfterStoreFailure(error);
    }
    const { id, event } = delivery;
    const fields = { webhook: webhook.id, delivery: id, event, status: outcome.status };
    if (outcome.state === "delivered") this.#logger.debug(fields, "webhook delivered");
    else this.#logger.warn({ ...fields, why: outcome.message }, "webhook not delivered");
  }

  async #attempt(
    webhook: WebhookRecord,
    delivery: DeliveryRecord,
    signal: AbortSignal,
  ): Promise<DeliveryOutcome> {
    const { store, clock, version } = this.#options;
    const body = store.webhooks.getPayload(delivery.id);
    const secret = store.webhooks.getSecret(webhook.id);
    if (body === undefined || secret === undefined)
      return { state: "failed", nextAtMs: null, status: null, message: "it was deleted" };
    const signature = `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`;
    const headers = {
      "user-agent": `berth/${version}`,
      "x-berth-event": delivery.event,
      "x-berth-delivery": delivery.id,
      "x-berth-signature-256": signature,
      "x-hub-signature-256": signature,
    };
    const answer = await postWebhook({ url: webhook.url, headers, body }, clock, signal);
    const { status } = answer;
    if (status >= 200 && status < 300)
      return { state: "delivered", nextAtMs: null, status, message: `answered ${status}` };
    return this.#buildFailedOutcome(delivery, status, describeResponse(answer), answer.retryAfter);
  }

  #buildFailedOutcome(
    delivery: DeliveryRecord,
    status: number | null,
    message: string,
    retryAfter: string | undefined,
  ): DeliveryOutcome {
    const { clock, random } = this.#options;
    const nowMs = clock.now();
    // 410 Gone means that the receiver no longer exists, so further attempts are useless.
    const waitMs =
      status === 410
        ? undefined
        : retryWaitMs(delivery.attempts + 1, parseRetryAfter(retryAfter, nowMs), random);
    if (waitMs === undefined) return { state: "failed", nextAtMs: null, status, message };
    return { state: "pending", nextAtMs: nowMs + waitMs, status, message };
  }

  /** Queues the deliveries of a notice. Called inside the transaction that records the notice. */
  #enqueue({ events, kind, name, message, generation, time, url }: ResourceNotice): void {
    const app = kind === "App" ? name : null;
    for (const webhook of this.#options.store.webhooks.list()) {
      // A webhook gets no notices about events from before its creation.
      if (webhook.createdAt > time) continue;
      if (webhook.apps.length > 0 && (app === null || !webhook.apps.includes(app))) continue;
      const event =
        webhook.events.length === 0
          ? events[0]
          : events.find((one) => webhook.events.includes(one));
      if (event === undefined) continue;
      this.#enqueueDelivery(webhook, event, {
        app,
        message,
        time,
        ...(generation === null ? {} : { generation }),
        ...(url === null ? {} : { url }),
      });
    }
  }

  #enqueueDelivery(
    webhook: WebhookRecord,
    event: DeliveryEvent,
    details: { app: string | null; message: string; time: string },
  ): DeliveryRecord {
    const { webhooks, instanceId } = this.#options.store;
    const id = randomUUID();
    this.#sendAtMs = 0;
    const payload = JSON.stringify({ id, event, ...details, instance: instanceId });
    return webhooks.enqueue({ id, webhook: webhook.id, event, app: details.app, payload });
  }

  /** Pauses all deliveries. Returns the end of the pause, in epoch milliseconds. */
  #pauseAfterStoreFailure(error: unknown): number {
    this.#pausedUntilMs = this.#options.clock.now() + STORE_RETRY_MS;
    this.#logger.error(
      { err: getErrorMessage(error) },
      "the store failed; webhook deliveries are paused",
    );
    return this.#pausedUntilMs;
  }
}

/**
 * Returns the lane of a delivery. Deliveries of one lane are sent one after the other. A delivery that tests a webhook
 * has its own lane, so that it is sent at once, regardless of pending deliveries.
 */
function getLane({ webhook, event }: DeliveryRecord): string {
  return event === "test" ? `${webhook} test` : webhook;
}

/** Explains why a response counts as a failure, with the beginning of its body. */
function describeResponse({ status, text }: PostResponse): string {
  if (status >= 300 && status < 400)
    return `answered ${status}: redirects are not followed; give the webhook the target URL itself`;
  const line = text.replaceAll(/[\p{Cc}\s]+/gu, " ").trim();
  const cut = line.length > ANSWER_LENGTH_MAX ? `${line.slice(0, ANSWER_LENGTH_MAX)}…` : line;
  return `answered ${status}${cut === "" ? "" : `: ${cut}`}`;
}
