import { gzipSync } from "node:zlib";
import { RootFs } from "../scripts/base-image.mjs";
import { NODE_WEB } from "../test/support/images.ts";
import type { BenchServer } from "./server.ts";

export const WEB_PORT = 8080;

function webServer(body: string): string {
  return [
    `const server = require("node:http").createServer((_, response) => response.end(${JSON.stringify(body)}));`,
    `server.listen(${WEB_PORT});`,
    `process.on("SIGTERM", () => server.close(() => process.exit(0)));`,
    "",
  ].join("\n");
}

/** A program that never opens its port. */
export const NEVER_READY = "setInterval(() => {}, 1000);\n";

/** A web server that exits two seconds after its start. */
export const DIES_SOON = `${webServer("dies soon")}setTimeout(() => process.exit(1), 2000);\n`;

/**
 * Creates a tar archive of a web server with a Dockerfile of three steps. If only the response body changes, the first
 * step stays the same and comes from the cache.
 */
export function webSource(body: string, program = webServer(body)): Buffer {
  const dockerfile = [
    `FROM ${NODE_WEB}`,
    "COPY web.cjs /web.cjs",
    `RUN ["/bin/node", "--check", "/web.cjs"]`,
    "",
  ];
  return new RootFs().file("Dockerfile", dockerfile.join("\n")).file("web.cjs", program).tar();
}

/**
 * Deploys the web server with POST /api/deploy. Returns when Berth has answered. If `wait` is true, Berth answers when
 * the version is Ready.
 */
export async function deployWeb(
  server: BenchServer,
  name: string,
  body: string,
  { wait = false, observe = "0s", program }: DeployOptions = {},
): Promise<void> {
  const form = new FormData();
  // The short drain lets Berth delete replaced containers before the next round begins.
  const config = {
    name,
    port: WEB_PORT,
    rollout: { drain: "1s", progressDeadline: "5s", observe },
  };
  form.set("config", JSON.stringify(config));
  form.set("source", new Blob([gzipSync(webSource(body, program))]), "source.tar.gz");
  const response = await fetch(`${server.api}/api/deploy${wait ? "?wait=true" : ""}`, {
    method: "POST",
    headers: server.headers,
    body: form,
  });
  const answer = await response.text();
  if (!response.ok) throw new Error(`POST /api/deploy answered ${response.status}: ${answer}`);
}

/** Deploys a program that fails. Returns when Berth runs the previous version again. */
export async function deployFailing(
  server: BenchServer,
  name: string,
  program: string,
): Promise<void> {
  // Berth does not try a failed version again, so each call deploys a different one.
  const unique = `${program}// ${Math.random()}\n`;
  const options = { wait: true, observe: "5s", program: unique };
  const error = await deployWeb(server, name, "", options).catch((thrown: unknown) => thrown);
  if (!String(error).includes("answered 409")) throw new Error(`no failure: ${String(error)}`);
}

interface DeployOptions {
  readonly wait?: boolean;
  readonly observe?: string;
  /** The JavaScript program to deploy; default: the web server of `webSource`. */
  readonly program?: string;
}
