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
        description:
          "A request from this machine needs no token. A request from another machine needs a token of any scope.",
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
