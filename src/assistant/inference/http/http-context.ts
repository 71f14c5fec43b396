import type { FastifyReply, FastifyRequest } from "fastify";
import type { Registry } from "prom-client";
import type { Clock } from "../../../base/clock.ts";
import type { BodyRate } from "../../../base/http/slow-body.ts";
import type { Logger } from "../../../base/logger.ts";
import type { AssistantError } from "../../assistant-error.ts";
import type { ModelRoutes } from "../routing/port.ts";
import type { InferenceService } from "../service-port.ts";
import type { ClientAccess } from "./client-access.ts";
import type { ContainerListeners } from "./container-listeners.ts";
import type { HttpExchange } from "./http-exchange.ts";
import type { SseLimits } from "./sse-stream.ts";
import { formatIgnoredHeader } from "./unknown-parameters.ts";

export interface InferenceHttpLimits extends SseLimits {
  /** The largest size of a request body. */
  readonly bodyBytesMax: number;
  /** The largest total size of the bodies of all requests that have not been answered yet. */
  readonly allBodiesBytesMax: number;
  /** The slowest rate at which a body may arrive. */
  readonly bodyRate: BodyRate;
  /**
   * The longest time between the acceptance of a request and the start of its stream, even if there is no delta yet.
   */
  readonly openAfterMs: number;
  /** The time limit for receiving a request's headers. */
  readonly headersMs: number;
  /** The time limit for receiving a whole request. */
  readonly requestMs: number;
  /** The time within which answers in progress must end when the server closes. */
  readonly closeGraceMs: number;
  readonly connectionsMax: number;
}

/**
 * The default limits. A reader receives data at least every 15 s: the request is accepted or refused within 5 s, the
 * stream starts within 5 s more, and then a gap lasts at most two heartbeats. A body of 4 MiB arrives in time if the
 * client sends 70 kB/s, which every program on this machine exceeds. A body that makes no progress ends sooner.
 */
export const defaultHttpLimits: InferenceHttpLimits = {
  bodyBytesMax: 4 * 2 ** 20,
  allBodiesBytesMax: 128 * 2 ** 20,
  bodyRate: { windowMs: 10_000, bytesMin: 64 * 2 ** 10 },
  openAfterMs: 5_000,
  heartbeatMs: 7_000,
  stalledMs: 300_000,
  headersMs: 15_000,
  requestMs: 60_000,
  closeGraceMs: 2_000,
  connectionsMax: 2_048,
};

export interface InferenceHttpOptions {
  readonly service: InferenceService;
  readonly clock: Clock;
  readonly logger: Logger;
  /** The metrics registry whose content /metrics returns. */
  readonly metrics: Registry;
  readonly version: string;
  /** Resolves model names to remote models; undefined if there are none. */
  readonly routes?: ModelRoutes;
  /** The listeners for containers; undefined if the server has none. */
  readonly listeners?: ContainerListeners;
  /** The clients that may use the port; `localAccess` by default. Does not apply to the listeners for containers. */
  readonly access?: ClientAccess;
  /** Overrides of `defaultHttpLimits`. */
  readonly limits?: Partial<InferenceHttpLimits>;
}

/** The dependencies that all routes share. */
export interface InferenceHttpContext {
  readonly service: InferenceService;
  readonly routes?: ModelRoutes;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Registry;
  readonly version: string;
  readonly limits: InferenceHttpLimits;
  /** Logs an error if it is the server's own fault. Other errors concern only the caller and are not logged. */
  reportUnexpected(error: AssistantError, exchange: HttpExchange): void;
}

const exchanges = new WeakMap<FastifyRequest, HttpExchange>();

export function attachExchange(request: FastifyRequest, exchange: HttpExchange): void {
  exchanges.set(request, exchange);
}

/**
 * Returns the HttpExchange of a request. Returns undefined if the request failed before the first hook, for example
 * because its path cannot be decoded.
 */
export function findExchange(request: FastifyRequest): HttpExchange | undefined {
  return exchanges.get(request);
}

/**
 * Returns the HttpExchange of a request that has reached its route. Throws if `attachExchange` was not called for the
 * request.
 */
export function getExchange(request: FastifyRequest): HttpExchange {
  const exchange = exchanges.get(request);
  if (!exchange) throw new Error("a request reached its route without a call of attachExchange");
  return exchange;
}

/** Reports the ignored parameters in a response header and in the debug log. */
export function reportIgnored(
  context: InferenceHttpContext,
  request: FastifyRequest,
  reply: FastifyReply,
  names: readonly string[],
): void {
  if (names.length === 0) return;
  const header = formatIgnoredHeader(names);
  reply.header("x-berth-ignored", header);
  context.logger.debug({ requestId: request.id, ignored: header }, "parameters were ignored");
}
