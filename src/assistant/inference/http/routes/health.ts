import type { FastifyInstance } from "fastify";
import type { InferenceHttpContext } from "../http-context.ts";

export function healthRoutes(server: FastifyInstance, context: InferenceHttpContext): void {
  server.get("/health", async () => {
    const { engine, ledgerOk, failedModels = [], upstream } = await context.service.health();
    return {
      status: ledgerOk && (upstream ?? "ok") === "ok" ? "ok" : "degraded",
      engine,
      version: context.version,
      ledger: ledgerOk ? "ok" : "unavailable",
      ...(failedModels.length > 0 ? { failed_models: failedModels } : {}),
      ...(upstream ? { upstream } : {}),
    };
  });
}
