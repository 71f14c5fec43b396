import type { FastifyReply, FastifyRequest } from "fastify";
import type { Registry } from "prom-client";
import type { Clock } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import type { AssistantError } from "../../assistant-error.ts";
import type { ModelRoutes } from "../routing/port.ts";
import type { InferenceService } from "../service-port.ts";
import type { ContainerListeners } from "./container-listeners.ts";
import type { HttpExchange } from "./http-exchange.ts";
import type { SseLimits } from "./sse-stream.ts";
import { formatIgnoredHeader } from "./unknown-parameters.ts";

export interface InferenceHttpLimits extends SseLimits {
  /** Maximum size of a body. */
  readonly bodyBytesMax: number;
  /** Time after acceptance until a stream must begin, even without a delta. */
  readonly openAfterMs: number;
  /** Time until a request's headers, and the whole request, must have arrived. */
  readonly headersMs: number;
  readonly requestMs: number;
  /** Time for answers in progress to end when the server closes. */
  readonly closeGraceMs: number;
  readonly connectionsMax: number;
}

/**
 * A reader receives something at least every 15 s: acceptance takes 5 s at most, the start of the stream 5 s more, and
 * then there is a gap of two heartbeats at most. 4 MiB in a minute are 70 kB/s, which is little on one machine.
 */
export const defaultHttpLimits: InferenceHttpLimits = {
  bodyBytesMax: 4 * 2 ** 20,
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
  /** The registry of the metrics, which /metrics shows. */
  readonly metrics: Registry;
  readonly version: string;
  /** Resolves names to remote models; undefined if there are none. */
  readonly routes?: ModelRoutes;
  /** Listeners for containers; undefined if the server has none. */
  readonly listeners?: ContainerListeners;
  /** Overrides of `defaultHttpLimits`. */
  readonly limits?: Partial<InferenceHttpLimits>;
}

/** The dependencies of every route. */
export interface InferenceHttpContext {
  readonly service: InferenceService;
  readonly routes?: ModelRoutes;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Registry;
  readonly version: string;
  readonly limits: InferenceHttpLimits;
  /** Logs errors that are the server's own fault; others concern the caller only. */
  reportUnexpected(error: AssistantError, exchange: HttpExchange): void;
}

const exchanges = new WeakMap<FastifyRequest, HttpExchange>();

export function attachExchange(request: FastifyRequest, exchange: HttpExchange): void {
  exchanges.set(request, exchange);
}

/** Undefined for a request that failed before the first hook, such as one whose path cannot be decoded. */
export function findExchange(request: FastifyRequest): HttpExchange | undefined {
  return exchanges.get(request);
}

/** Returns the exchange of a request that has reached its route. */
export function getExchange(request: FastifyRequest): HttpExchange {
  const exchange = exchanges.get(request);
  if (!exchange) throw new Error("a request reached its route without an exchange");
  return exchange;
}

/** Names the ignored parameters in the answer's header and in the debug log. */
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
