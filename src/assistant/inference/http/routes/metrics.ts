import type { FastifyInstance } from "fastify";
import type { InferenceHttpContext } from "../http-context.ts";

export function metricsRoutes(server: FastifyInstance, context: InferenceHttpContext): void {
  server.get("/metrics", async (_request, reply) => {
    reply.header("content-type", context.metrics.contentType);
    return context.metrics.metrics();
  });
}
