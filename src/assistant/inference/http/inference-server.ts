import { randomUUID } from "node:crypto";
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { AssistantError } from "../../assistant-error.ts";
import { ClientConnections } from "./client-connections.ts";
import { answerOptions, checkHostAndOrigin } from "./host-and-origin.ts";
import {
  attachExchange,
  defaultHttpLimits,
  findExchange,
  type InferenceHttpContext,
  type InferenceHttpOptions,
} from "./http-context.ts";
import { HttpExchange } from "./http-exchange.ts";
import { sendError, toAssistantError } from "./inference-error-response.ts";
import { createInferenceMetrics } from "./inference-metrics.ts";
import { acceptJsonBodies } from "./json-body.ts";
import { KnownPaths } from "./known-paths.ts";
import { answerMalformedRequest } from "./malformed-request.ts";
import { notFoundError } from "./not-found.ts";
import { chatCompletionRoutes } from "./routes/chat-completions.ts";
import { completionRoutes } from "./routes/completions.ts";
import { embeddingRoutes } from "./routes/embeddings.ts";
import { healthRoutes } from "./routes/health.ts";
import { metricsRoutes } from "./routes/metrics.ts";
import { modelRoutes } from "./routes/models.ts";

/**
 * The largest length of a path parameter. It is longer than any id, so that a slightly too long id still gets a helpful
 * error.
 */
const PARAM_LENGTH_MAX = 2048;
/** The interval at which connections that send too slowly are detected. */
const SLOW_CHECK_MS = 2_000;

/**
 * Builds the HTTP server for the chat-completions convention. The caller starts listening, only on a loopback address.
 * `close()` ends requests in progress with `shutting_down` and waits for them briefly. It does not close the service.
 */
export function buildInferenceServer(options: InferenceHttpOptions): FastifyInstance {
  const { clock, logger } = options;
  const limits = { ...defaultHttpLimits, ...options.limits };
  const context: InferenceHttpContext = {
    ...options,
    limits,
    reportUnexpected: (error, exchange) => {
      if (error.code !== "internal") return;
      logger.error({ err: error.cause ?? error, requestId: exchange.id }, "a request failed");
    },
  };
  const server = Fastify({
    logger: false,
    bodyLimit: limits.bodyBytesMax,
    requestTimeout: limits.requestMs,
    http: { headersTimeout: limits.headersMs, connectionsCheckingInterval: SLOW_CHECK_MS },
    return503OnClosing: false,
    genReqId: (request) => getRequestId(request.headers["x-request-id"]),
    requestIdHeader: false,
    routerOptions: {
      maxParamLength: PARAM_LENGTH_MAX,
      ignoreTrailingSlash: true,
      ignoreDuplicateSlashes: true,
    },
    clientErrorHandler: answerMalformedRequest,
    frameworkErrors: (error, request, reply) => answer(error, request, reply),
  });
  server.server.maxConnections = limits.connectionsMax;
  const connections = new ClientConnections(server.server, clock);
  options.listeners?.attach(server.server);
  const paths = new KnownPaths();
  const underway = new Set<HttpExchange>();
  const measure = createInferenceMetrics(options.metrics, {
    connections: () => connections.open,
    requests: () => underway.size,
  });
  let isClosing = false;

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

  acceptJsonBodies(server);
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
    const item = {
      onDisconnect: () => {
        exchange.markClientGone();
        finish();
      },
    };
    const finish = () => {
      if (!underway.delete(exchange)) return;
      connections.end(socket, item);
      recordEnd(request, reply, exchange);
    };
    reply.raw.once("finish", finish);
    connections.begin(socket, item);
    reply.header("x-request-id", request.id).header("x-content-type-options", "nosniff");
    try {
      if (isClosing) throw new AssistantError("shutting_down", "Berth is shutting down");
      checkHostAndOrigin(request, reply, options.listeners?.getExpectedHost(socket));
      if (!request.is404) done();
      else if (answersWithoutRoute(request, reply)) return;
      else done(notFoundError(request.url, paths));
    } catch (error) {
      done(
        error instanceof Error ? error : new Error("the Host and Origin check of a request failed"),
      );
    }
  });

  /**
   * Responds to OPTIONS requests and returns true if it did. Throws AssistantError if the path exists, but not with
   * this method.
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

  let stopGrace: (() => void) | undefined;
  server.addHook("preClose", async () => {
    isClosing = true;
    stopGrace = clock.setTimer(limits.closeGraceMs, () => connections.destroyAll());
    for (const exchange of underway) exchange.shutDown();
    connections.close();
  });
  server.addHook("onClose", async () => stopGrace?.());

  healthRoutes(server, context);
  modelRoutes(server, context);
  chatCompletionRoutes(server, context);
  completionRoutes(server, context);
  embeddingRoutes(server, context);
  metricsRoutes(server, context);
  return server;
}

/** Returns the id of a request. A client's own id is used if it is safe for a log. */
function getRequestId(header: string | string[] | undefined): string {
  return typeof header === "string" && /^[A-Za-z0-9._:-]{1,128}$/.test(header)
    ? header
    : randomUUID();
}
