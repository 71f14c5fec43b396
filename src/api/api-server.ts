import type { Server } from "node:http";
import type { Socket } from "node:net";
import type { FastifyHttpOptions, FastifyInstance, FastifyRequest } from "fastify";
import { BerthError, type ErrorCode } from "../base/errors.ts";
import { createHttpServer } from "../base/http/http-server.ts";
import { isIngressConnection } from "../base/http/ingress-connections.ts";
import { getHostHeaders } from "../base/http/loopback-host.ts";
import type { MalformedRequestResponse } from "../base/http/malformed-request.ts";
import { type Certificate, isLocal, TlsServerWithLocalHttp } from "../base/http/tls-server.ts";
import type { Api, ApiContext, ApiDependencies } from "./api-context.ts";
import { authenticateRequest } from "./auth/authenticate-request.ts";
import { createProxyCheck } from "./auth/trusted-proxies.ts";
import { ChangeHub } from "./change-hub.ts";
import { installErrorHandlers } from "./error-handlers.ts";
import { StreamSlots } from "./event-stream.ts";
import { measureRequests } from "./http-metrics.ts";
import { openApiRoutes, registerOpenApi } from "./openapi.ts";
import { parseRequestJson } from "./request-json.ts";
import { parseWaitTimeoutMs } from "./request-parameters.ts";
import { appActionRoutes } from "./routes/app-actions.ts";
import { appDeployRoutes } from "./routes/app-deploy.ts";
import { appViewRoutes } from "./routes/app-views.ts";
import { applyRoutes } from "./routes/apply.ts";
import { appRoutes } from "./routes/apps.ts";
import { authRoutes } from "./routes/auth.ts";
import { backupRoutes } from "./routes/backup.ts";
import { buildRoutes } from "./routes/builds.ts";
import { deployRoutes } from "./routes/deploy.ts";
import { eventRoutes } from "./routes/events.ts";
import { gitHookRoutes } from "./routes/git-hooks.ts";
import { healthRoutes } from "./routes/health.ts";
import { llmRoutes } from "./routes/llm.ts";
import { llmActionRoutes } from "./routes/llm-actions.ts";
import { llmProgressRoutes } from "./routes/llm-progress.ts";
import { logRoutes } from "./routes/logs.ts";
import { metricsRoutes } from "./routes/metrics.ts";
import { resourceRoutes } from "./routes/resources.ts";
import { secretRoutes } from "./routes/secrets.ts";
import { specRoutes } from "./routes/specs.ts";
import { stackRoutes } from "./routes/stacks.ts";
import { systemRoutes } from "./routes/system.ts";
import { templateRoutes } from "./routes/templates.ts";
import { webhookRoutes } from "./routes/webhooks.ts";
import { compileValidator, type HttpPart } from "./schema-validation.ts";

const JSON_BYTES_MAX = 1024 * 1024;
/**
 * The maximum total size of the bodies of all requests that have no response yet. Uploads have a higher limit, and are
 * not kept in memory.
 */
const ALL_BODIES_BYTES_MAX = 64 * 1024 * 1024;
const BODIES_RETRY_SECONDS = 2;
/**
 * The minimum rate at which a client must send a body: 4 KiB/s over half a minute. Archives may arrive over slow lines,
 * so a whole request has no time limit. At this rate a body of 1 MiB, the limit of most routes, takes four minutes.
 */
const BODY_RATE = { windowMs: 30_000, bytesMin: 120 * 1024 } as const;
/** The time limits of Node's HTTP server. `requestTimeout: 0` means that a whole request has no time limit. */
const HTTP_LIMITS = {
  requestTimeout: 0,
  headersTimeout: 30_000,
  connectionsCheckingInterval: 5_000,
} as const;

/** The time in which running requests may finish when the server closes. The whole process has five seconds to exit. */
const CLOSE_GRACE_MS = 2_000;

/**
 * Creates the REST API; the caller makes it listen. `close()` ends event streams and waiting requests, lets all other
 * requests finish, and leaves the store open.
 */
export function createApiServer(options: ApiDependencies): FastifyInstance {
  const closing = new AbortController();
  const context: ApiContext = {
    ...options,
    hub: new ChangeHub(options.store),
    closing: closing.signal,
    startedAtMs: options.clock.now(),
  };
  const { server } = createHttpServer({
    clock: options.clock,
    closeGraceMs: CLOSE_GRACE_MS,
    onClosing: () => closing.abort(),
    toMalformedResponse,
    jsonContentType: /^application\/(?:[\w.-]+\+)?json(?:;|$)/i,
    parseJson: parseRequestJson,
    bodyRate: BODY_RATE,
    allBodies: {
      bytesMax: ALL_BODIES_BYTES_MAX,
      findSender: async ({ caller, ip }) => (caller ? [caller.tokenId] : ["without a token", ip]),
      createError: () =>
        new BerthError("too_many_requests", "the server holds too many request bodies in memory", {
          hint: "send the request again in a few seconds",
          details: { retryAfterSeconds: BODIES_RETRY_SECONDS },
        }),
    },
    fastify: {
      ...(options.certificate ? serveTls(options.certificate) : {}),
      bodyLimit: JSON_BYTES_MAX,
      trustProxy: createProxyCheck(options.config.trustedProxies),
      http: HTTP_LIMITS,
      routerOptions: { ignoreTrailingSlash: true },
      frameworkErrors: (error, request, reply) => errorHandlers.answer(error, request, reply),
    },
  });
  const errorHandlers = installErrorHandlers(server, context.logger);
  server.decorateRequest("caller", null);
  server.setValidatorCompiler(({ schema, httpPart }) =>
    compileValidator(schema, toHttpPart(httpPart)),
  );
  server.addHook("onRoute", (route) => {
    if (route.config?.access === undefined) {
      throw new Error(`the route ${String(route.method)} ${route.path} declares no access`);
    }
  });
  server.addHook("onRequest", async (request) => {
    assertOneHost(request);
    if (request.is404) return;
    const access = request.routeOptions.config.access ?? "admin";
    request.caller = authenticateRequest(request, access, options.store.tokens);
  });

  server.addHook("preHandler", async (request) => {
    const query: unknown = request.query;
    // A request with an invalid `timeout` is refused before anything is written. This also applies to requests without
    // `wait`, although they do not use the timeout.
    if (typeof query === "object" && query !== null && "timeout" in query)
      parseWaitTimeoutMs(String(query.timeout));
  });

  const slots = new StreamSlots();
  measureRequests(server, options.metrics, slots);
  server.addHook("onClose", async () => context.hub[Symbol.dispose]());

  // The routes are in a plugin, so that the OpenAPI plugin, which has to see every route, is loaded first.
  void server.register(async (scope: FastifyInstance) => {
    const api: Api = scope.withTypeProvider();
    await registerOpenApi(api, context);
    healthRoutes(api, context);
    authRoutes(api, context);
    appRoutes(api, context);
    appActionRoutes(api, context);
    appDeployRoutes(api, context);
    appViewRoutes(api, context);
    buildRoutes(api, context, slots);
    logRoutes(api, context, slots);
    await deployRoutes(api, context);
    await gitHookRoutes(api, context);
    templateRoutes(api, context);
    secretRoutes(api, context);
    stackRoutes(api, context);
    resourceRoutes(api, context);
    applyRoutes(api, context);
    specRoutes(api, context);
    webhookRoutes(api, context);
    systemRoutes(api, context);
    llmRoutes(api, context);
    llmActionRoutes(api, context);
    llmProgressRoutes(api, context, slots);
    eventRoutes(api, context, slots);
    backupRoutes(api, context);
    metricsRoutes(api, context);
    openApiRoutes(api);
  });
  return server;
}

/**
 * Creates the server for HTTPS. Its time limits are set here, because Fastify applies its own settings only to servers
 * that it creates itself.
 */
function serveTls(certificate: Certificate): Pick<FastifyHttpOptions<Server>, "serverFactory"> {
  const options = { ...HTTP_LIMITS, mayBePlain };
  return {
    serverFactory: (handler) => new TlsServerWithLocalHttp(options, handler, certificate),
  };
}

/** Returns true for a connection from Caddy or from this machine. Such a connection may use plain HTTP. */
function mayBePlain(socket: Socket): boolean {
  return isIngressConnection(socket) || isLocal(socket);
}

function toHttpPart(httpPart: string | undefined): HttpPart {
  if (httpPart === "querystring" || httpPart === "params" || httpPart === "headers") {
    return httpPart;
  }
  return "body";
}

const codeByMalformedStatus: Readonly<Record<number, ErrorCode>> = {
  408: "request_timeout",
  431: "headers_too_large",
};

function toMalformedResponse(status: number, message: string): MalformedRequestResponse {
  const headers = { "X-Error-Code": codeByMalformedStatus[status] ?? "invalid_request" };
  return { body: { error: message }, headers };
}

/** Throws BerthError `invalid_request` unless a request has one Host header, as HTTP requires since version 1.1. */
function assertOneHost({ raw }: FastifyRequest): void {
  const hosts = getHostHeaders(raw.rawHeaders);
  if (hosts.length === 1 || (hosts.length === 0 && raw.httpVersion === "1.0")) return;
  throw new BerthError("invalid_request", "the request needs one Host header");
}
