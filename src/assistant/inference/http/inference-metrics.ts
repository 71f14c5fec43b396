import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import type { ExchangeFacts } from "./http-exchange.ts";

/** A finished request. */
export interface CompletedRequest {
  readonly method: string;
  /** The pattern of the route. A path from a client must never become a label. */
  readonly route: string;
  /** The HTTP status, or `gone` if the client disconnected before the answer. */
  readonly status: string;
  readonly seconds: number;
  readonly facts: ExchangeFacts;
}

/** Registers the server's metrics. Returns a function that records a finished request. */
export function createInferenceMetrics(
  registry: Registry,
  now: { readonly connections: () => number; readonly requests: () => number },
): (request: CompletedRequest) => void {
  const registers = [registry];
  const requests = new Counter({
    name: "berth_inference_requests_total",
    help: "Finished requests by route and status; the status gone means that the client disconnected before the answer.",
    labelNames: ["method", "route", "status"],
    registers,
  });
  const duration = new Histogram({
    name: "berth_inference_request_duration_seconds",
    help: "Duration of requests from their arrival to the end of the answer.",
    labelNames: ["route"],
    buckets: [0.005, 0.025, 0.1, 0.5, 2.5, 10, 30, 120, 600],
    registers,
  });
  const firstToken = new Histogram({
    name: "berth_inference_time_to_first_token_seconds",
    help: "Time from a request's arrival to the first delta of its answer.",
    labelNames: ["model"],
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60],
    registers,
  });
  const tokens = new Counter({
    name: "berth_inference_tokens_total",
    help: "Tokens by model and kind: prompt tokens, the part of them that was cached, and generated (completion) tokens.",
    labelNames: ["model", "kind"],
    registers,
  });
  const errors = new Counter({
    name: "berth_inference_errors_total",
    help: "Requests that failed, by error code; failures during a stream are counted in this metric only.",
    labelNames: ["code"],
    registers,
  });
  gauge("berth_inference_connections_open", "Open connections.", now.connections);
  gauge("berth_inference_requests_underway", "Requests in progress.", now.requests);

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
