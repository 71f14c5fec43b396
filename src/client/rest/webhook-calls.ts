import type {
  CreatedWebhook,
  CreateWebhookBody,
  DeliveryList,
  DeliveryView,
  WebhookList,
  WebhookView,
} from "../../resources/wire/webhooks.ts";
import { encodeSegment, type Transport } from "./transport.ts";

export function webhookCalls(transport: Transport) {
  return {
    list: (): Promise<WebhookList> => transport.json("GET", "/api/webhooks"),
    get: (id: string): Promise<WebhookView> => transport.json("GET", webhookPath(id)),
    /** Creates a webhook. Only the result of this call contains a secret that the server has generated. */
    create: (body: CreateWebhookBody): Promise<CreatedWebhook> =>
      transport.json("POST", "/api/webhooks", { body }),
    async delete(id: string): Promise<void> {
      await transport.send("DELETE", webhookPath(id));
    },
    /** Queues a test event, whose result appears in the deliveries. */
    test: (id: string): Promise<DeliveryView> => transport.json("POST", webhookPath(id, "/test")),
    /** Returns deliveries, newest first. */
    deliveries: (id: string, limit?: number): Promise<DeliveryList> =>
      transport.json("GET", webhookPath(id, "/deliveries"), { query: { limit } }),
    redeliver: (id: string, delivery: string): Promise<DeliveryView> =>
      transport.json("POST", webhookPath(id, `/deliveries/${encodeSegment(delivery)}/redeliver`)),
  };
}

function webhookPath(id: string, rest = ""): string {
  return `/api/webhooks/${encodeSegment(id)}${rest}`;
}
