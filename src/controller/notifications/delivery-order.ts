import type { DeliveryRecord } from "../../store/store.ts";

/**
 * While one that failed waits for so many attempts, those behind it wait too, so that a receiver that
 * restarts gets everything in order. After that it lets them pass: one body that a receiver cannot
 * digest must not hold all others up for hours.
 */
const BLOCKING_ATTEMPTS_MAX = 3;

export type NextDelivery =
  | { readonly type: "send"; readonly delivery: DeliveryRecord }
  /** Nothing is due before then, in epoch milliseconds. */
  | { readonly type: "wait"; readonly untilMs: number }
  | { readonly type: "none" };

/** Which of one webhook's pending deliveries, oldest first, is next. Pure. */
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
