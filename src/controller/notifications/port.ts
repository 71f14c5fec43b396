import type { DeliveryRecord } from "../../store/store.ts";

/** What the API asks of the sender of webhooks. Webhooks themselves are made and deleted in the store. */
export interface Webhooks {
  /** Queues a `test` event. Throws NotFoundError. */
  test(webhook: string): DeliveryRecord;
  /** Sends a delivery once more, with the same id and body. Throws NotFoundError. */
  redeliver(webhook: string, delivery: string): DeliveryRecord;
}
