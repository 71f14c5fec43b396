import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { createHttpServer } from "../../../base/http/http-server.ts";
import { AssistantError } from "../../assistant-error.ts";
import { checkPeerUser, localAccess } from "./client-access.ts";
import { answerOptions, checkHostAndOrigin } from "./host-and-origin.ts";
import {
  attachExchange,
  defaultHttpLimits,
  findExchange,
  getExchange,
  type InferenceHttpContext,
  type InferenceHttpOptions,
} from "./http-context.ts";
import { HttpExchange } from "./http-exchange.ts";
import { createErrorEnvelope, sendError, toAssistantError } from "./inference-error-response.ts";
import { createInferenceMetrics } from "./inference-metrics.ts";
import { jsonContentType, parseJsonBody } from "./json-body.ts";
import { KnownPaths } from "./known-paths.ts";
import { findSender } from "./request-sender.ts";
import { chatCompletionRoutes } from "./routes/chat-completions.ts";
import { completionRoutes } from "./routes/completions.ts";
import { embeddingRoutes } from "./routes/embeddings.ts";
import { healthRoutes } from "./routes/health.ts";
import { metricsRoutes } from "./routes/metrics.ts";
import { modelRoutes } from "./routes/models.ts";

/** The interval at which connections that send too slowly are detected. */
const SLOW_CHECK_MS = 2_000;

/**
 * Builds the HTTP server that is compatible with OpenAI's API. The caller starts listening, only on a loopback address.
 * `close()` ends requests in progress with `shutting_down` and waits for them briefly. It does not close the service.
 */
export function buildInferenceServer(options: InferenceHttpOptions): FastifyInstance {
  const { access = localAccess, clock, logger } = options;
  const limits = { ...defaultHttpLimits, ...options.limits };
  const context: InferenceHttpContext = {
    ...options,
    limits,
    reportUnexpected: (error, exchange) => {
      if (error.code !== "internal") return;
      logger.error({ err: error.cause ?? error, requestId: exchange.id }, "a request failed");
    },
  };
  const paths = new KnownPaths();
  const underway = new Set<HttpExchange>();
  let isClosing = false;
  const { server, connections } = createHttpServer({
    clock,
    closeGraceMs: limits.closeGraceMs,
    onClosing: () => {
      isClosing = true;
      for (const exchange of underway) exchange.shutDown();
    },
    toMalformedResponse: (_status, message) => ({
      body: createErrorEnvelope(new AssistantError("invalid_request", message)),
    }),
    jsonContentType,
    parseJson: parseJsonBody,
    bodyRate: limits.bodyRate,
    allBodies: {
      bytesMax: limits.allBodiesBytesMax,
      findSender: ({ raw: { socket } }) =>
        findSender(socket, options.listeners?.getExpectedHost(socket)),
      createError: () =>
        new AssistantError(
          "queue_full",
          "the bodies of too many requests are in memory; try again",
        ),
    },
    fastify: {
      bodyLimit: limits.bodyBytesMax,
      requestTimeout: limits.requestMs,
      http: { headersTimeout: limits.headersMs, connectionsCheckingInterval: SLOW_CHECK_MS },
      return503OnClosing: false,
      routerOptions: { ignoreTrailingSlash: true, ignoreDuplicateSlashes: true },
      frameworkErrors: (error, request, reply) => answer(error, request, reply),
    },
  });
  server.server.maxConnections = limits.connectionsMax;
  options.listeners?.attach(server.server);
  const measure = createInferenceMetrics(options.metrics, {
    connections: () => connections.open,
    requests: () => underway.size,
  });

  const answer = (error: unknown, request: FastifyRequest, reply: FastifyReply): void => {
    const exchange = findExchange(request);
    if (exchange?.isClientGone === true) {
      reply.hijack();
      return;
    }
    const known = toAssistantError(exchange?.resolveError(error) ?? error);
    if (exchange) {
      exchange.facts.errorCode = known.code;
      context.reportUnexpected(known, exchange);
    }
    sendError(known, request, reply);
  };

  server.setErrorHandler((error, request, reply) => answer(error, request, reply));
  server.setNotFoundHandler((request, reply) =>
    answer(notFoundError(request.url, paths), request, reply),
  );
  server.addHook("onRoute", ({ method, path }) => paths.add(method, path));

  server.addHook("onRequest", (request, reply, done) => {
    const exchange = new HttpExchange(request.id, clock.now());
    attachExchange(request, exchange);
    underway.add(exchange);
    const { socket } = request.raw;
    connections.onEnd(socket, reply.raw, (isSent) => {
      if (!isSent) exchange.markClientGone();
      underway.delete(exchange);
      recordEnd(request, reply, exchange);
    });
    try {
      if (isClosing) throw new AssistantError("shutting_down", "Berth is shutting down");
      const listenerHost = options.listeners?.getExpectedHost(socket);
      checkHostAndOrigin(request, reply, access.allowsOrigin, listenerHost);
      done();
    } catch (error) {
      done(
        error instanceof Error
          ? error
          : new Error(
              "the check of the Host and Origin headers threw a value that is not an Error",
            ),
      );
    }
  });
  const { owner } = access;
  if (owner)
    server.addHook("onRequest", async (request) => {
      const { socket } = request.raw;
      // The clients of a container listener are in another network namespace, and the listener has checked them.
      if (options.listeners?.getExpectedHost(socket)?.isOwn === false) return;
      const user = await checkPeerUser(socket, owner);
      if (user !== undefined) getExchange(request).facts.clientUid = user;
    });
  server.addHook("onRequest", (request, reply, done) => {
    try {
      if (!request.is404) done();
      else if (!answersWithoutRoute(request, reply)) done(notFoundError(request.url, paths));
    } catch (error) {
      done(
        error instanceof Error
          ? error
          : new Error("the check of the path threw a value that is not an Error"),
      );
    }
  });

  /**
   * Handles a request that matches no route. Answers an OPTIONS request for a known path and returns true; returns
   * false for an unknown path. Throws AssistantError `method_not_allowed` for a known path with another method.
   */
  const answersWithoutRoute = (request: FastifyRequest, reply: FastifyReply): boolean => {
    const methods = paths.getMethods(request.url);
    if (methods.length === 0) return false;
    if (request.method === "OPTIONS") {
      answerOptions(request, reply, methods);
      return true;
    }
    reply.header("allow", methods.join(", "));
    throw new AssistantError(
      "method_not_allowed",
      `this path does not accept ${request.method}; it accepts ${methods.join(", ")}`,
    );
  };

  const recordEnd = (
    request: FastifyRequest,
    reply: FastifyReply,
    exchange: HttpExchange,
  ): void => {
    const route = request.routeOptions.url ?? "none";
    const status = exchange.isClientGone ? "gone" : String(reply.raw.statusCode);
    const ms = clock.now() - exchange.startedAtMs;
    const { facts } = exchange;
    measure({ method: request.method, route, status, seconds: ms / 1000, facts });
    const fields = { requestId: request.id, method: request.method, route, status, ms, ...facts };
    if (request.method === "POST") logger.info(fields, "request finished");
    else logger.debug(fields, "request finished");
  };

  healthRoutes(server, context);
  modelRoutes(server, context);
  chatCompletionRoutes(server, context);
  completionRoutes(server, context);
  embeddingRoutes(server, context);
  metricsRoutes(server, context);
  return server;
}

/**
 * Creates the error for an unknown path. The client usually has a wrong base URL or expects another API. Users often
 * see only this message, so it names the setting to change.
 */
function notFoundError(url: string, paths: KnownPaths): AssistantError {
  const path = url.split("?", 1)[0] ?? "";
  return new AssistantError(
    "not_found",
    `there is nothing at ${JSON.stringify(path.slice(0, 200))}${suggestRoute(path, paths.listPlain())}`,
  );
}

const baseUrlHint = "the base URL of a client ends in /v1";

function suggestRoute(path: string, known: readonly string[]): string {
  const plain = path.replace(/\/+$/, "");
  // The client's path may lack /v1, contain it twice, be below another path, or contain the route twice because the
  // client's base URL includes the route. In all these cases, the path ends with the route.
  const route = known.find((one) => one.startsWith("/v1/") && plain.endsWith(one.slice(3)));
  if (route !== undefined) return `: it is at ${route}; ${baseUrlHint}`;
  if (/\/responses(?:\/|$)/.test(plain)) {
    return ": there is no Responses API here; set the client to chat completions (/v1/chat/completions)";
  }
  if (plain.startsWith("/api/")) {
    return `: this is not Ollama's API; use a client for OpenAI's API; ${baseUrlHint}`;
  }
  return `: there is ${known.join(", ")}`;
}
