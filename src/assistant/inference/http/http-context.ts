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
  /** Of a body. */
  readonly bodyBytesMax: number;
  /** How long a stream may be without an answer, once its request is accepted. */
  readonly openAfterMs: number;
  /** A request's headers, and all of it, have to be in by then. */
  readonly headersMs: number;
  readonly requestMs: number;
  /** How long answers that run may take to end when the server closes. */
  readonly closeGraceMs: number;
  readonly connectionsMax: number;
}

/**
 * A reader hears something at least every 15 s: after at most 5 s for the request to be accepted and 5 s
 * more, and then after at most two heartbeats. 4 MiB in a minute are 70 kB/s, on the machine itself.
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
  /** Where metrics are registered, and what /metrics shows. */
  readonly metrics: Registry;
  readonly version: string;
  /** Which names stand for remote models; undefined: none does. */
  readonly routes?: ModelRoutes;
  /** By which others than this machine's own programs come in; undefined: nobody does. */
  readonly listeners?: ContainerListeners;
  /** Where they differ from `defaultLimits`. */
  readonly limits?: Partial<InferenceHttpLimits>;
}

/** What every route gets. */
export interface InferenceHttpContext {
  readonly service: InferenceService;
  readonly routes?: ModelRoutes;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Registry;
  readonly version: string;
  readonly limits: InferenceHttpLimits;
  /** Logs an error that is nobody's fault but ours; anything else is the caller's business. */
  reportUnexpected(error: AssistantError, exchange: HttpExchange): void;
}

const exchanges = new WeakMap<FastifyRequest, HttpExchange>();

export function attachExchange(request: FastifyRequest, exchange: HttpExchange): void {
  exchanges.set(request, exchange);
}

/** Undefined for what never got as far as the first hook, such as a path that cannot be decoded. */
export function findExchange(request: FastifyRequest): HttpExchange | undefined {
  return exchanges.get(request);
}

/** Of a request that has come to its route. */
export function getExchange(request: FastifyRequest): HttpExchange {
  const exchange = exchanges.get(request);
  if (!exchange) throw new Error("a request came to its route without an exchange");
  return exchange;
}

/** Names in the answer, and in the debug log, what nothing was done with. */
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
