import type { FastifyReply, FastifyRequest } from "fastify";
import {
  getHostHeaders,
  isLoopbackHost,
  loopbackOrigin,
} from "../../../base/http/loopback-host.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { ListenerHost } from "./container-listeners.ts";

/*
 * Checks which clients may use the port. The port requires no key, so every program of this machine may use it, but web
 * pages from other machines may not. Browsers send the origin of a page in the Origin header. Connections of a container
 * listener use its own host name, which no public DNS server knows.
 */

/** The time in seconds for which a browser may cache the response to a preflight request. */
const PREFLIGHT_SECONDS = 600;
/** The response headers that a web page may read. */
const exposedHeaders = "x-request-id, x-berth-ignored, x-should-retry, retry-after";

/**
 * Checks the Host and Origin headers and throws AssistantError `forbidden` if they are not allowed. Sets the CORS
 * headers for web pages of this machine. `listenerHost` describes the container listener of the connection; undefined
 * for the endpoint's own address.
 */
export function checkHostAndOrigin(
  request: FastifyRequest,
  reply: FastifyReply,
  listenerHost?: ListenerHost,
): void {
  const { origin } = request.headers;
  // Requests with two Host headers are refused.
  const hosts = getHostHeaders(request.raw.rawHeaders);
  if (hosts.length !== 1 || !hosts.every((host) => isAllowedHost(host, listenerHost))) {
    const names = listenerHost?.isOwn === false ? listenerHost.host : "this machine";
    const hint =
      listenerHost?.isOwn === false ? "OPENAI_BASE_URL" : "http://127.0.0.1 or http://localhost";
    throw new AssistantError("forbidden", `the Host header has to name ${names}: use ${hint}`);
  }
  reply.header("vary", "origin");
  if (origin === undefined) return;
  if (!loopbackOrigin.test(origin)) {
    throw new AssistantError("forbidden", "only web pages of this machine may use this service");
  }
  reply
    .header("access-control-allow-origin", origin)
    .header("access-control-expose-headers", exposedHeaders);
}

/** Responds to a browser's preflight request. `checkHostAndOrigin` must have succeeded before. */
export function answerOptions(
  request: FastifyRequest,
  reply: FastifyReply,
  methods: readonly string[],
): void {
  reply.header("allow", methods.join(", "));
  if (request.headers.origin !== undefined) {
    const asked = request.headers["access-control-request-headers"];
    reply
      .header("vary", "origin, access-control-request-headers")
      .header("access-control-allow-methods", methods.join(", "))
      .header("access-control-allow-headers", asked ?? "content-type, authorization")
      .header("access-control-max-age", String(PREFLIGHT_SECONDS));
    if (request.headers["access-control-request-private-network"] === "true") {
      reply.header("access-control-allow-private-network", "true");
    }
  }
  void reply.code(204).send();
}

function isAllowedHost(host: string, listenerHost: ListenerHost | undefined): boolean {
  if (listenerHost && host.toLowerCase().replace(/:\d{1,5}$/, "") === listenerHost.host)
    return true;
  return listenerHost?.isOwn !== false && isLoopbackHost(host);
}
