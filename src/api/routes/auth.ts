import { randomBytes } from "node:crypto";
import { Type } from "typebox";
import { timestamp } from "../../base/clock.ts";
import { BerthError, NotFoundError } from "../../base/errors.ts";
import { parseDuration } from "../../base/units.ts";
import {
  CreatedToken,
  CreateTokenBody,
  LoginBody,
  LoginResponse,
  TokenList,
  TokenView,
} from "../../resources/wire/auth.ts";
import { closed } from "../../resources/wire/wire-schema.ts";
import type { Api, ApiContext } from "../api-context.ts";
import { AttemptLimiter } from "../auth/attempt-limiter.ts";
import { getClientAddress } from "../auth/client-address.ts";
import { verifyPassword } from "../auth/password.ts";
import { createRequestSignal, getActor } from "../request-parameters.ts";
import { EmptyBody, NoQuery, responses } from "../route-schemas.ts";
import { tokenView } from "../views/resources.ts";

const SESSION_MS = 24 * 3_600_000;
/** The maximum lifetime of a token that expires. For longer access, a client creates a token without expiry. */
const TOKEN_LIFETIME_MAX_MS = 10 * 365 * 24 * 3_600_000;

export function authRoutes(api: Api, context: ApiContext): void {
  const { store, clock } = context;
  const limiter = new AttemptLimiter(clock);

  api.post(
    "/api/auth/login",
    {
      config: { access: "public" },
      bodyLimit: 8 * 1024,
      schema: {
        summary: "Exchange the password for a session token",
        description:
          "The token is valid for 24 hours. After five wrong passwords in a minute a client gets 429 with Retry-After; many wrong passwords of different clients delay every login by up to five seconds.",
        tags: ["auth"],
        body: LoginBody,
        querystring: NoQuery,
        response: responses({ 200: LoginResponse }),
      },
    },
    async (request, reply) => {
      await limiter.slowDown(createRequestSignal(reply, context.closing));
      const address = getClientAddress(request);
      const attempt = limiter.begin(address);
      let isRight = false;
      try {
        isRight = await verifyPassword(store.settings, request.body.password);
      } finally {
        attempt.end(isRight);
      }
      const actor = { actor: "user:admin", requestId: request.id, kind: null, changes: [] };
      if (!isRight) {
        store.audit.append({ ...actor, action: "login_failed", name: address });
        throw new BerthError("unauthorized", "the password is wrong");
      }
      const { token, record } = store.tokens.create({
        name: `session-${randomBytes(4).toString("hex")}`,
        scope: "admin",
        kind: "session",
        lifetimeMs: SESSION_MS,
      });
      store.audit.append({ ...actor, action: "login", name: address });
      reply.header("cache-control", "no-store");
      return {
        token,
        token_type: "Bearer" as const,
        expires_in: SESSION_MS / 1000,
        expires_at: record.expiresAt ?? timestamp(clock.now() + SESSION_MS),
      };
    },
  );

  api.post(
    "/api/auth/logout",
    {
      config: { access: "read" },
      schema: {
        summary: "End the session whose token authenticates the request",
        tags: ["auth"],
        body: EmptyBody,
        querystring: NoQuery,
        response: responses({ 204: Type.Null() }),
      },
    },
    async (request, reply) => {
      const record = store.tokens.list().find((token) => token.id === request.caller?.tokenId);
      if (record && record.kind !== "session") {
        throw new BerthError("wrong_state", `"${record.name}" is a ${record.kind} token`, {
          hint: "only sessions can be logged out; revoke a token with DELETE /api/auth/tokens/:id",
        });
      }
      if (record) store.tokens.revoke(record.id);
      return reply.code(204).send(null);
    },
  );

  api.get(
    "/api/auth/whoami",
    {
      config: { access: "read" },
      schema: {
        summary: "Show the name and the scope of the token that authenticates the request",
        tags: ["auth"],
        querystring: NoQuery,
        response: responses({ 200: TokenView }),
      },
    },
    async (request) => {
      const record = store.tokens.list().find((token) => token.id === request.caller?.tokenId);
      if (!record)
        throw new BerthError("unauthorized", "the token has just expired or been revoked");
      return tokenView(record);
    },
  );

  api.get(
    "/api/auth/tokens",
    {
      config: { access: "admin" },
      schema: {
        summary: "List tokens and sessions",
        tags: ["auth"],
        querystring: NoQuery,
        response: responses({ 200: TokenList }),
      },
    },
    async () => {
      const tokens = store.tokens.list().map((record) => tokenView(record));
      return { tokens, total: tokens.length };
    },
  );

  api.post(
    "/api/auth/tokens",
    {
      config: { access: "admin" },
      schema: {
        summary: "Create a named token",
        description:
          "Only this response contains the token. Without expires_in, the token is valid until it is revoked.",
        tags: ["auth"],
        body: CreateTokenBody,
        querystring: NoQuery,
        response: responses({ 201: CreatedToken }),
      },
    },
    async (request, reply) => {
      const { name, scope = "write", expires_in } = request.body;
      const lifetimeMs = expires_in === undefined ? null : parseDuration(expires_in);
      if (lifetimeMs !== null && (lifetimeMs <= 0 || lifetimeMs > TOKEN_LIFETIME_MAX_MS)) {
        throw new BerthError(
          "invalid_request",
          "expires_in: has to be more than 0 and at most 3650d",
        );
      }
      const { token, record } = store.tokens.create({ name, scope, kind: "named", lifetimeMs });
      store.audit.append({ ...createAuditFields(getActor(request)), action: "token_create", name });
      reply.code(201).header("cache-control", "no-store");
      return { token, ...tokenView(record) };
    },
  );

  api.delete(
    "/api/auth/tokens/:id",
    {
      config: { access: "admin" },
      schema: {
        summary: "Revoke a token, by its id or its name",
        description: "Responds 409 for the local token, because each start of Berth replaces it.",
        tags: ["auth"],
        params: Type.Object({ id: Type.String() }, closed),
        querystring: NoQuery,
        response: responses({ 204: Type.Null() }),
      },
    },
    async (request, reply) => {
      const { id } = request.params;
      const all = store.tokens.list();
      const record =
        all.find((token) => token.id === id) ??
        all.find((token) => token.kind === "named" && token.name === id);
      if (record?.kind === "local") {
        throw new BerthError(
          "wrong_state",
          "the local token belongs to the command line of the server's machine",
          {
            hint: "each start of Berth replaces the local token",
          },
        );
      }
      if (!record || !store.tokens.revoke(record.id)) {
        throw new NotFoundError(`there is no token ${JSON.stringify(id.slice(0, 80))}`);
      }
      const actor = createAuditFields(getActor(request));
      store.audit.append({ ...actor, action: "token_revoke", name: record.name });
      return reply.code(204).send(null);
    },
  );
}

function createAuditFields(actor: { name: string; requestId?: string }) {
  return { actor: actor.name, requestId: actor.requestId ?? null, kind: null, changes: [] };
}
