import type { FastifyInstance } from "fastify";
import { Gauge, Histogram, type Registry } from "prom-client";
import type { StreamSlots } from "./event-stream.ts";

/** Measures durations of requests by route pattern, so that names in paths do not become labels. */
export function measureRequests(
  server: FastifyInstance,
  registry: Registry,
  slots: StreamSlots,
): void {
  const duration = new Histogram({
    name: "berth_http_request_duration_seconds",
    help: "Duration of requests, except streams, which last until their readers disconnect.",
    labelNames: ["method", "route", "status"],
    buckets: [0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10, 60],
    registers: [registry],
  });
  const streams: Gauge = new Gauge({
    name: "berth_http_streams_open",
    help: "Number of open server-sent event streams.",
    registers: [registry],
    collect: (): void => streams.set(slots.open),
  });
  server.addHook("onResponse", async (request, reply) => {
    const { url, config } = request.routeOptions;
    if (config.isStream === true && reply.statusCode === 200) return;
    duration.observe(
      { method: request.method, route: url ?? "none", status: String(reply.statusCode) },
      reply.elapsedTime / 1000,
    );
  });
}
