import type { FastifyReply, FastifyRequest } from "fastify";
import { AssistantError } from "../../assistant-error.ts";
import type { ListenerHost } from "./container-listeners.ts";

/**
 * Checks which programs may use the port. It needs no key, so every program of this machine may; web pages from
 * elsewhere may not. Browsers send a page's origin in Origin, and a DNS name that was pointed at this machine (DNS
 * rebinding) shows in Host. Connections of a container listener use its own host name, which no public DNS server
 * knows.
 */
const hostPattern = String.raw`(?:localhost\.?|127(?:\.\d{1,3}){3}|\[(?:::1|0:0:0:0:0:0:0:1|::ffff:127(?:\.\d{1,3}){3})\])(?::\d{1,5})?`;
const loopbackHost = new RegExp(`^${hostPattern}$`, "i");
const loopbackOrigin = new RegExp(`^https?://${hostPattern}$`, "i");

/** Time for which a browser may cache the answer to a preflight, in seconds. */
const PREFLIGHT_SECONDS = 600;
/** Headers of an answer that a page may read. */
const exposedHeaders = "x-request-id, x-berth-ignored, x-should-retry, retry-after";

/**
 * Throws AssistantError `forbidden`. Sets the CORS headers for pages of this machine. `listenerHost` describes the
 * container listener of the connection; undefined for the endpoint's own address.
 */
export function checkHostAndOrigin(
  request: FastifyRequest,
  reply: FastifyReply,
  listenerHost?: ListenerHost,
): void {
  const { origin } = request.headers;
  // With two Host headers, Node would use the first one and a browser or a proxy perhaps the other.
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

/** Answers a browser's preflight request. `checkHostAndOrigin` must have succeeded before. */
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
  return listenerHost?.isOwn !== false && loopbackHost.test(host);
}

/** Raw headers alternate between names and values. */
function getHostHeaders(rawHeaders: readonly string[]): readonly string[] {
  return rawHeaders.filter(
    (_, index) => index % 2 === 1 && rawHeaders[index - 1]?.toLowerCase() === "host",
  );
}
