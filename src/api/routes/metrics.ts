import { Type } from "typebox";
import type { Api, ApiContext } from "../api-context.ts";
import { NoQuery } from "../route-schemas.ts";

export function metricsRoutes(api: Api, context: ApiContext): void {
  api.get(
    "/metrics",
    {
      config: { access: "loopback" },
      schema: {
        summary: "Metrics for Prometheus",
        description: "Needs no token on this machine, and any token from elsewhere.",
        tags: ["system"],
        querystring: NoQuery,
        produces: ["text/plain"],
        response: { 200: Type.String() },
      },
    },
    async (_request, reply) => {
      reply.header("content-type", context.metrics.contentType);
      return context.metrics.metrics();
    },
  );
}
