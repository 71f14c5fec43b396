/** Events that are sent to webhooks; `docs/webhooks.md` describes each one. */
export const webhookEvents = [
  "deployed",
  "failed",
  "build_failed",
  "reverted",
  "unhealthy",
  "recovered",
  "pruned",
] as const;

export type WebhookEvent = (typeof webhookEvents)[number];

/** The event `test` is sent on request, even if the webhook has not selected it. */
export type DeliveryEvent = WebhookEvent | "test";
