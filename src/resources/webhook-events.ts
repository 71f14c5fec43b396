/** What a webhook can be told of; `docs/webhooks.md` says when each one is sent. */
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

/** `test` is sent when a person asks for it, to whatever the webhook listens to. */
export type DeliveryEvent = WebhookEvent | "test";
