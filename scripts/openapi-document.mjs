import path from "node:path";
import { Registry } from "prom-client";
import { createApiServer } from "../src/api/api-server.ts";
import { systemClock } from "../src/base/clock.ts";
import { silentLogger } from "../src/base/logger.ts";
import { packageRoot } from "../src/base/package-root.ts";
import { readPackageVersion } from "../src/base/package-version.ts";

/**
 * Generates the OpenAPI document from the routes of the API server. The server has no subsystems, because it answers
 * only the request for the document.
 */
export async function generateOpenApiDocument() {
  const server = createApiServer({
    store: { watch: () => () => {} },
    clock: systemClock,
    logger: silentLogger,
    metrics: new Registry(),
    version: readPackageVersion(),
    config: {
      baseDomain: "localhost",
      dataDir: path.join(packageRoot, "dist"),
      trustedProxies: [],
      uploadBytesMax: 1,
    },
  });
  const { statusCode, body } = await server.inject({ url: "/api/openapi.json" });
  await server.close();
  if (statusCode !== 200) throw new Error(`the OpenAPI document cannot be generated: ${body}`);
  return body;
}
