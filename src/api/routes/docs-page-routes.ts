import swagger from "@fastify/swagger";
import { type FastifyInstance, fastify } from "fastify";
import type { Api } from "../api-context.ts";

const PREFIX = "/api/docs";

/**
 * Serves the page /api/docs, which shows the OpenAPI document in a browser. The page's plugin is loaded at the first
 * request, because loading it takes a tenth of the time in which a server starts. As routes cannot be added to a server
 * that listens, the plugin gets a Fastify instance of its own, which does not listen and serves requests by injection.
 */
export function docsPageRoutes(api: Api, getDocument: () => string): void {
  let page: Promise<FastifyInstance> | undefined;
  for (const url of [PREFIX, `${PREFIX}/*`])
    api.get(
      url,
      { config: { access: "public" }, schema: { hide: true } },
      async (request, reply) => {
        page ??= openDocsPage(getDocument());
        const { statusCode, headers, rawPayload } = await (await page).inject({ url: request.url });
        if (statusCode === 404) return reply.callNotFound();
        const { connection: _connection, ...ownHeaders } = headers;
        return reply.code(statusCode).headers(ownHeaders).send(rawPayload);
      },
    );
  api.addHook("onClose", async () => (await page)?.close());
}

async function openDocsPage(document: string): Promise<FastifyInstance> {
  const { default: swaggerUi } = await import("@fastify/swagger-ui");
  const server = fastify({ routerOptions: { ignoreTrailingSlash: true } });
  await server.register(swagger, {
    mode: "static",
    specification: { document: JSON.parse(document) },
  });
  await server.register(swaggerUi, {
    routePrefix: PREFIX,
    // The policy of the page omits `upgrade-insecure-requests`, because the page must also work over plain HTTP. The
    // page loads nothing from other hosts.
    staticCSP:
      "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; object-src 'none'; frame-ancestors 'none'; base-uri 'self'",
    uiConfig: { persistAuthorization: false, displayRequestDuration: true },
  });
  await server.ready();
  return server;
}
