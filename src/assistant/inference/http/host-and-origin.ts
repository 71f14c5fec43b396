import type { FastifyReply, FastifyRequest } from "fastify";
import { AssistantError } from "../../assistant-error.ts";
import type { ListenerHost } from "./container-listeners.ts";

/**
 * The port needs no key, so that any program of this machine can use it; a web page from elsewhere may
 * not. Browsers say where a page is from (Origin), and a name that was pointed at this machine to get
 * around that gives itself away in Host. Who comes in by a door uses the door's own name, which no public
 * server of names knows.
 */
const hostPattern = String.raw`(?:localhost\.?|127(?:\.\d{1,3}){3}|\[(?:::1|0:0:0:0:0:0:0:1|::ffff:127(?:\.\d{1,3}){3})\])(?::\d{1,5})?`;
const loopbackHost = new RegExp(`^${hostPattern}$`, "i");
const loopbackOrigin = new RegExp(`^https?://${hostPattern}$`, "i");

/** How long a browser may keep the answer to a preflight, in seconds. */
const PREFLIGHT_SECONDS = 600;
/** What a page may read of an answer beside the body. */
const exposedHeaders = "x-request-id, x-berth-ignored, x-should-retry, retry-after";

/**
 * Throws AssistantError `forbidden`. Sets the CORS headers for a page of this machine. `door` is how the
 * connection came in, where that was not by the endpoint's own address.
 */
export function checkHostAndOrigin(
  request: FastifyRequest,
  reply: FastifyReply,
  listenerHost?: ListenerHost,
): void {
  const { origin } = request.headers;
  // Node would take the first of two, and a browser or a proxy the other one.
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
    throw new AssistantError("forbidden", "only pages of this machine may use this service");
  }
  reply
    .header("access-control-allow-origin", origin)
    .header("access-control-expose-headers", exposedHeaders);
}

/** What a browser asks before it sends a page's request. `admitLoopback` has been passed. */
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

/** Raw headers are names and values in turn. */
function getHostHeaders(rawHeaders: readonly string[]): readonly string[] {
  return rawHeaders.filter(
    (_, index) => index % 2 === 1 && rawHeaders[index - 1]?.toLowerCase() === "host",
  );
}
