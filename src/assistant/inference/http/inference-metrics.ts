import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import type { ExchangeFacts } from "./http-exchange.ts";

/** A request that is over, however it ended. */
export interface CompletedRequest {
  readonly method: string;
  /** Pattern of the route, so that no path of a client becomes a label. */
  readonly route: string;
  /** `gone` where the client left first. */
  readonly status: string;
  readonly seconds: number;
  readonly facts: ExchangeFacts;
}

/** Counts what goes through the server. Returns what takes down a request that is over. */
export function createInferenceMetrics(
  registry: Registry,
  now: { readonly connections: () => number; readonly requests: () => number },
): (request: CompletedRequest) => void {
  const registers = [registry];
  const requests = new Counter({
    name: "berth_inference_requests_total",
    help: "Requests that are over, by route and status; gone: the client left before the answer.",
    labelNames: ["method", "route", "status"],
    registers,
  });
  const duration = new Histogram({
    name: "berth_inference_request_duration_seconds",
    help: "How long requests took from their arrival to the end of the answer.",
    labelNames: ["route"],
    buckets: [0.005, 0.025, 0.1, 0.5, 2.5, 10, 30, 120, 600],
    registers,
  });
  const firstToken = new Histogram({
    name: "berth_inference_time_to_first_token_seconds",
    help: "From a request's arrival to the first piece of its answer.",
    labelNames: ["model"],
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60],
    registers,
  });
  const tokens = new Counter({
    name: "berth_inference_tokens_total",
    help: "Tokens by model: read (prompt), read before and kept (cached, part of prompt), generated (completion).",
    labelNames: ["model", "kind"],
    registers,
  });
  const errors = new Counter({
    name: "berth_inference_errors_total",
    help: "Requests that ended with an error, by its code; those of streams under way are here only.",
    labelNames: ["code"],
    registers,
  });
  gauge("berth_inference_connections_open", "Connections that are open now.", now.connections);
  gauge("berth_inference_requests_underway", "Requests that are under way now.", now.requests);

  return ({ method, route, status, seconds, facts }) => {
    requests.inc({ method, route, status });
    duration.observe({ route }, seconds);
    if (facts.errorCode !== undefined) errors.inc({ code: facts.errorCode });
    const { model } = facts;
    if (model === undefined) return;
    if (facts.firstTokenMs !== undefined) firstToken.observe({ model }, facts.firstTokenMs / 1000);
    tokens.inc({ model, kind: "prompt" }, facts.promptTokens ?? 0);
    tokens.inc({ model, kind: "cached" }, facts.cachedTokens ?? 0);
    tokens.inc({ model, kind: "completion" }, facts.completionTokens ?? 0);
  };

  function gauge(name: string, help: string, value: () => number): void {
    const made: Gauge = new Gauge({
      name,
      help,
      registers,
      collect: (): void => made.set(value()),
    });
  }
}
