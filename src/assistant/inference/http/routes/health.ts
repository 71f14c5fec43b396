import type { FastifyInstance } from "fastify";
import type { InferenceHttpContext } from "../http-context.ts";

export function healthRoutes(server: FastifyInstance, context: InferenceHttpContext): void {
  server.get("/health", async () => {
    const { engine, ledgerOk } = context.service.health();
    return {
      status: ledgerOk ? "ok" : "degraded",
      engine,
      version: context.version,
      ledger: ledgerOk ? "ok" : "unavailable",
    };
  });
}
