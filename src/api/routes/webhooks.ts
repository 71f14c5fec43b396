import { randomBytes } from "node:crypto";
import type { FastifyRequest } from "fastify";
import { Type } from "typebox";
import { timestamp } from "../../base/clock.ts";
import { NotFoundError } from "../../base/errors.ts";
import { checkWebhookUrl } from "../../resources/webhook-url.ts";
import {
  CreatedWebhook,
  CreateWebhookBody,
  DeliveryList,
  DeliveryView,
  WebhookList,
  WebhookView,
} from "../../resources/wire/webhooks.ts";
import { closed } from "../../resources/wire/wire-schema.ts";
import type { AuditEntry, DeliveryRecord, FieldChange, WebhookRecord } from "../../store/store.ts";
import type { Api, ApiContext } from "../api-context.ts";
import { getActor } from "../request-parameters.ts";
import { EmptyBody, LimitField, NoQuery, responses } from "../route-schemas.ts";

/** The length of a generated secret in bytes, equal to the length of the HMAC. */
const SECRET_BYTES = 32;
const DELIVERIES_SHOWN = 50;

const IdParams = Type.Object({ id: Type.String() }, closed);
const tags = ["webhooks"];

/** Routes for webhooks. They require the scope admin, because many receivers trust any caller who knows their URL. */
export function webhookRoutes(api: Api, context: ApiContext): void {
  const { store, webhooks } = context;
  const requireWebhook = (id: string): WebhookRecord => {
    const found = store.webhooks.get(id);
    if (!found) throw new NotFoundError("there is no such webhook", "berth webhooks lists them");
    return found;
  };
  const audit = (
    request: FastifyRequest,
    action: AuditEntry["action"],
    name: string,
    changes: readonly FieldChange[] = [],
  ) => {
    const actor = getActor(request);
    const requestId = actor.requestId ?? null;
    store.audit.append({ actor: actor.name, requestId, action, kind: null, name, changes });
  };

  api.get(
    "/api/webhooks",
    {
      config: { access: "admin" },
      schema: {
        summary: "List the receivers of events",
        tags,
        querystring: NoQuery,
        response: responses({ 200: WebhookList }),
      },
    },
    async () => {
      const found = store.webhooks.list().map((webhook) => webhookView(webhook));
      return { webhooks: found, total: found.length };
    },
  );

  api.post(
    "/api/webhooks",
    {
      config: { access: "admin" },
      bodyLimit: 64 * 1024,
      schema: {
        summary: "Add a receiver of events",
        description:
          "A webhook without events and apps gets all events. Requests are signed with the secret, as sha256=HMAC of the body. If the request contains no secret, Berth generates one and shows it in this response only.",
        tags,
        body: CreateWebhookBody,
        querystring: NoQuery,
        response: responses({ 201: CreatedWebhook }),
      },
    },
    async (request, reply) => {
      const { events = [], apps = [] } = request.body;
      const url = checkWebhookUrl(request.body.url);
      const made = request.body.secret === undefined ? generateSecret() : undefined;
      const secret = request.body.secret ?? made ?? "";
      const webhook = store.batch(() => {
        const created = store.webhooks.create({ url, events, apps, secret });
        audit(request, "webhook_create", created.id, [
          { path: "/url", before: undefined, after: url },
          { path: "/events", before: undefined, after: events },
          { path: "/apps", before: undefined, after: apps },
        ]);
        return created;
      });
      reply.code(201).header("cache-control", "no-store");
      return { ...webhookView(webhook), ...(made === undefined ? {} : { secret: made }) };
    },
  );

  api.get(
    "/api/webhooks/:id",
    {
      config: { access: "admin" },
      schema: {
        summary: "One receiver",
        tags,
        params: IdParams,
        querystring: NoQuery,
        response: responses({ 200: WebhookView }),
      },
    },
    async (request) => webhookView(requireWebhook(request.params.id)),
  );

  api.delete(
    "/api/webhooks/:id",
    {
      config: { access: "admin" },
      schema: {
        summary: "Remove a receiver",
        tags,
        params: IdParams,
        querystring: NoQuery,
        response: responses({ 204: Type.Null() }),
      },
    },
    async (request, reply) => {
      const { id, url } = requireWebhook(request.params.id);
      store.batch(() => {
        store.webhooks.remove(id);
        audit(request, "webhook_delete", id, [{ path: "/url", before: url, after: undefined }]);
      });
      return reply.code(204).send(null);
    },
  );

  api.post(
    "/api/webhooks/:id/test",
    {
      config: { access: "admin" },
      schema: {
        summary: "Send a test event to a receiver",
        description:
          "The response is the queued delivery; the list of deliveries shows its result.",
        tags,
        params: IdParams,
        body: EmptyBody,
        querystring: NoQuery,
        response: responses({ 202: DeliveryView }),
      },
    },
    async (request, reply) => {
      const { id } = request.params;
      const delivery = webhooks.test(id);
      audit(request, "webhook_test", id);
      return reply.code(202).send(deliveryView(delivery));
    },
  );

  api.get(
    "/api/webhooks/:id/deliveries",
    {
      config: { access: "admin" },
      schema: {
        summary: "The deliveries to a receiver with their results, newest first",
        tags,
        params: IdParams,
        querystring: Type.Object({ limit: LimitField }, closed),
        response: responses({ 200: DeliveryList }),
      },
    },
    async (request) => {
      const { id } = requireWebhook(request.params.id);
      const limit = request.query.limit ?? DELIVERIES_SHOWN;
      const deliveries = store.webhooks.listDeliveries(id, limit).map((one) => deliveryView(one));
      return { deliveries, total: deliveries.length };
    },
  );

  api.post(
    "/api/webhooks/:id/deliveries/:delivery/redeliver",
    {
      config: { access: "admin" },
      schema: {
        summary: "Repeat a delivery with the same id and body",
        tags,
        params: Type.Object({ id: Type.String(), delivery: Type.String() }, closed),
        body: EmptyBody,
        querystring: NoQuery,
        response: responses({ 202: DeliveryView }),
      },
    },
    async (request, reply) => {
      const { id, delivery } = request.params;
      const queued = webhooks.redeliver(id, delivery);
      audit(request, "webhook_redeliver", id, [
        { path: "/delivery", before: undefined, after: delivery },
      ]);
      return reply.code(202).send(deliveryView(queued));
    },
  );
}

function generateSecret(): string {
  return randomBytes(SECRET_BYTES).toString("hex");
}

function webhookView({ id, url, events, apps, createdAt }: WebhookRecord): WebhookView {
  return { id, url, events: [...events], apps: [...apps], created_at: createdAt };
}

function deliveryView(delivery: DeliveryRecord): DeliveryView {
  const { id, event, app, state, attempts, status, message, nextAtMs } = delivery;
  return {
    id,
    event,
    app,
    state,
    attempts,
    status,
    message,
    next_attempt_at: nextAtMs === null ? null : timestamp(nextAtMs),
    created_at: delivery.createdAt,
    finished_at: delivery.finishedAt,
  };
}
