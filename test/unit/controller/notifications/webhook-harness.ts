import { vi } from "vitest";
import { silentLogger } from "../../../../src/base/logger.ts";
import { WebhookSender } from "../../../../src/controller/notifications/webhook-sender.ts";
import type { WebhookEvent } from "../../../../src/resources/webhook-events.ts";
import type { DeliveryRecord, Store, WebhookRecord } from "../../../../src/store/store.ts";
import { openTestStore } from "../../../support/test-store.ts";
import { WAIT_OPTIONS } from "../../../support/wait-limits.ts";

export const SECRET = "kept between the two of us";

/** A store and a sender on a clock that the test advances; the network is real. */
export class WebhookHarness implements AsyncDisposable {
  readonly #test = openTestStore();
  #sender = this.#make();

  get store(): Store {
    return this.#test.store;
  }

  get sender(): WebhookSender {
    return this.#sender;
  }

  get clock() {
    return this.#test.clock;
  }

  hook(
    url: string,
    more: { events?: readonly WebhookEvent[]; apps?: readonly string[] } = {},
  ): WebhookRecord {
    return this.store.webhooks.create({ url, events: [], apps: [], secret: SECRET, ...more });
  }

  /** Lists the deliveries, newest first. */
  deliveries(webhook: WebhookRecord): DeliveryRecord[] {
    return this.store.webhooks.listDeliveries(webhook.id, 1000);
  }

  /** Waits until the webhook's only delivery has had `count` attempts, without advancing the virtual time. */
  async attempts(webhook: WebhookRecord, count: number): Promise<DeliveryRecord> {
    return vi.waitFor(() => {
      const [delivery] = this.deliveries(webhook);
      if (delivery?.attempts !== count)
        throw new Error(`${delivery?.attempts} attempts: ${delivery?.message}`);
      return delivery;
    }, WAIT_OPTIONS);
  }

  /** Disposes of the sender and the store, and opens both again. */
  async restart(): Promise<void> {
    await this.#sender[Symbol.asyncDispose]();
    await this.#test.reopen();
    this.#sender = this.#make();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#sender[Symbol.asyncDispose]();
    await this.#test[Symbol.asyncDispose]();
  }

  #make(): WebhookSender {
    const sender = new WebhookSender({
      store: this.#test.store,
      clock: this.#test.clock,
      logger: silentLogger,
      version: "1.2.3",
      random: () => 0,
    });
    sender.start();
    return sender;
  }
}
