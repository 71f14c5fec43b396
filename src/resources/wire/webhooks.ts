import { type Static, Type } from "typebox";
import { webhookEvents } from "../webhook-events.ts";
import { closed, NullableInteger, NullableString, OneOf, Timestamp } from "./wire-schema.ts";

const AppName = Type.String({ pattern: "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$" });

const webhookFields = {
  id: Type.String(),
  url: Type.String(),
  events: Type.Array(OneOf(webhookEvents), {
    description: "events that are sent; if the list is empty, all events",
  }),
  apps: Type.Array(Type.String(), {
    description:
      "apps whose events are sent; if the list is empty, all apps, and events that concern no app",
  }),
  created_at: Timestamp,
};

export const WebhookView = Type.Object(webhookFields, closed);
export type WebhookView = Static<typeof WebhookView>;

export const WebhookList = Type.Object(
  { webhooks: Type.Array(WebhookView), total: Type.Integer() },
  closed,
);
export type WebhookList = Static<typeof WebhookList>;

export const CreateWebhookBody = Type.Object(
  {
    url: Type.String({
      pattern: "^https?://[^\\s]+$",
      maxLength: 4096,
      description: "a URL with http or https",
    }),
    events: Type.Optional(Type.Array(OneOf(webhookEvents), { maxItems: 20, uniqueItems: true })),
    apps: Type.Optional(Type.Array(AppName, { maxItems: 100, uniqueItems: true })),
    secret: Type.Optional(
      Type.String({
        minLength: 8,
        maxLength: 1024,
        description: "secret that signs the requests; if it is omitted, Berth generates one",
      }),
    ),
  },
  closed,
);
export type CreateWebhookBody = Static<typeof CreateWebhookBody>;

/**
 * The response to the creation of a webhook. Only this response contains the secret, and only if Berth generated it.
 */
export const CreatedWebhook = Type.Object(
  { ...webhookFields, secret: Type.Optional(Type.String()) },
  closed,
);
export type CreatedWebhook = Static<typeof CreatedWebhook>;

export const DeliveryView = Type.Object(
  {
    id: Type.String(),
    event: OneOf([...webhookEvents, "test"]),
    app: NullableString,
    state: OneOf(["pending", "delivered", "failed"]),
    attempts: Type.Integer(),
    status: Type.Unsafe<number | null>({
      ...NullableInteger,
      description: "HTTP status of the last response; null if there was no response",
    }),
    message: Type.Unsafe<string | null>({
      ...NullableString,
      description: "result of the last attempt of the delivery",
    }),
    next_attempt_at: NullableString,
    created_at: Timestamp,
    finished_at: NullableString,
  },
  closed,
);
export type DeliveryView = Static<typeof DeliveryView>;

export const DeliveryList = Type.Object(
  {
    deliveries: Type.Array(DeliveryView),
    total: Type.Integer({ description: "number of deliveries in this response" }),
  },
  closed,
);
export type DeliveryList = Static<typeof DeliveryList>;
