import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import swagger from "@fastify/swagger";
import { Type } from "typebox";
import type { Api, ApiContext } from "./api-context.ts";
import { withComponents } from "./openapi-components.ts";
import { NoQuery, responses, unserialized } from "./route-schemas.ts";
import { docsPageRoutes } from "./routes/docs-page-routes.ts";

/**
 * Generates the OpenAPI document from the schemas that validate requests and serialize responses, so that the document
 * always agrees with the behaviour.
 */
export async function registerOpenApi(api: Api, context: ApiContext): Promise<void> {
  await api.register(swagger, {
    convertConstToEnum: false,
    openapi: {
      openapi: "3.1.0",
      info: {
        title: "Berth",
        description:
          "The management API: apps, templates, secrets, models and the state of the server.",
        version: context.version,
        license: { name: "Apache-2.0", identifier: "Apache-2.0" },
      },
      servers: [{ url: "/", description: "this server" }],
      tags: [
        { name: "apps", description: "Apps: containers of one image, kept running" },
        { name: "stacks", description: "Groups of apps that share a network" },
        { name: "builds", description: "Builds of images from sources, and their logs" },
        { name: "templates", description: "The catalog from which apps are created" },
        { name: "secrets", description: "Confidential values for apps, which no response shows" },
        {
          name: "resources",
          description: "Resources of every kind, in the form of their manifests",
        },
        { name: "specs", description: "The watched folder" },
        { name: "webhooks", description: "Messages to other programs about events of apps" },
        { name: "events", description: "Changes of resources, and who made them" },
        { name: "models", description: "Language models" },
        { name: "auth", description: "Sessions and tokens" },
        { name: "system", description: "The server itself" },
      ],
      components: {
        securitySchemes: { token: { type: "http", scheme: "bearer" } },
      },
      security: [{ token: [] }],
    },
    transform: ({ schema, url, route }) => {
      const { access, documentedBody } = route.config ?? {};
      const isOpen = access === "public" || access === "loopback";
      const documented = documentedBody && { body: documentedBody };
      return { schema: { ...schema, ...documented, ...(isOpen && { security: [] }) }, url };
    },
    transformObject: (input) =>
      "openapiObject" in input ? withComponents({ ...input.openapiObject }) : input.swaggerObject,
  });
}

/**
 * The OpenAPI document that the build generates (scripts/build.mjs), because generating it takes longer than a reader
 * should wait.
 */
const builtDocument = join(import.meta.dirname, "openapi.json");

export function openApiRoutes(api: Api): void {
  let document: string | undefined;
  const getDocument = (): string => {
    // openapi.json does not exist if Berth runs from its sources, as in tests.
    document ??= existsSync(builtDocument)
      ? readFileSync(builtDocument, "utf8")
      : JSON.stringify(api.swagger());
    return document;
  };
  api.get(
    "/api/openapi.json",
    {
      config: { access: "public" },
      schema: {
        summary: "This document, as OpenAPI 3.1",
        tags: ["system"],
        querystring: NoQuery,
        response: responses({ 200: unserialized(Type.Object({}, { additionalProperties: true })) }),
      },
    },
    async (_request, reply) => reply.type("application/json; charset=utf-8").send(getDocument()),
  );
  docsPageRoutes(api, getDocument);
}
