import { gzipSync } from "node:zlib";
import { RootFs } from "../scripts/base-image.mjs";
import { NODE_WEB } from "../test/support/images.ts";
import type { BenchServer } from "./server.ts";

/** Creates a tar archive of a web server with a Dockerfile of three steps. Another body changes all but the first step. */
export function webSource(body: string): Buffer {
  const program = [
    `const server = require("node:http").createServer((_, response) => response.end(${JSON.stringify(body)}));`,
    "server.listen(8080);",
    `process.on("SIGTERM", () => server.close(() => process.exit(0)));`,
    "",
  ];
  const dockerfile = [
    `FROM ${NODE_WEB}`,
    "COPY web.cjs /web.cjs",
    `RUN ["/bin/node", "--check", "/web.cjs"]`,
    "",
  ];
  return new RootFs()
    .file("Dockerfile", dockerfile.join("\n"))
    .file("web.cjs", program.join("\n"))
    .tar();
}

export const WEB_PORT = 8080;

/** POST /api/deploy with the web server. Returns when Berth has answered; with `wait`, when the version is Ready. */
export async function deployWeb(
  server: BenchServer,
  name: string,
  body: string,
  { wait = false } = {},
): Promise<void> {
  const form = new FormData();
  // Replaced containers may be deleted before the next round begins.
  const config = { name, port: WEB_PORT, rollout: { drain: "1s" } };
  form.set("config", JSON.stringify(config));
  form.set("source", new Blob([gzipSync(webSource(body))]), "source.tar.gz");
  const response = await fetch(`${server.api}/api/deploy${wait ? "?wait=true" : ""}`, {
    method: "POST",
    headers: server.headers,
    body: form,
  });
  const answer = await response.text();
  if (!response.ok) throw new Error(`POST /api/deploy answered ${response.status}: ${answer}`);
}
