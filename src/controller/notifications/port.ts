import type { DeliveryRecord } from "../../store/store.ts";

/** The sender of webhooks, as the API uses it. Webhooks themselves are created and deleted in the store. */
export interface Webhooks {
  /** Queues a `test` event. Throws NotFoundError. */
  test(webhook: string): DeliveryRecord;
  /** Sends a delivery once more, with the same id and body. Throws NotFoundError. */
  redeliver(webhook: string, delivery: string): DeliveryRecord;
}
