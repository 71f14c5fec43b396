import type { DeliveryRecord } from "../../store/store.ts";

/**
 * While a failed delivery has had fewer attempts than this, later deliveries wait for it, so that a receiver that
 * restarts gets all deliveries in order. After that, later deliveries are sent first, because one body that a receiver
 * cannot process must not delay all others for hours.
 */
const BLOCKING_ATTEMPTS_MAX = 3;

export type NextDelivery =
  | { readonly type: "send"; readonly delivery: DeliveryRecord }
  /** `untilMs` is the earliest time at which a delivery is due, in epoch milliseconds. */
  | { readonly type: "wait"; readonly untilMs: number }
  | { readonly type: "none" };

/** Chooses the next delivery from the pending deliveries of a webhook, which are sorted from old to new. Pure. */
export function chooseNextDelivery(
  pending: readonly DeliveryRecord[],
  nowMs: number,
): NextDelivery {
  let untilMs = Number.POSITIVE_INFINITY;
  for (const delivery of pending) {
    const dueAt = delivery.nextAtMs ?? 0;
    if (dueAt <= nowMs) return { type: "send", delivery };
    untilMs = Math.min(untilMs, dueAt);
    if (delivery.attempts < BLOCKING_ATTEMPTS_MAX) break;
  }
  return untilMs === Number.POSITIVE_INFINITY ? { type: "none" } : { type: "wait", untilMs };
}
