import type { FastifyReply, FastifyRequest } from "fastify";
import { getHostHeaders, isLoopbackHost } from "../../../base/http/loopback-host.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { ListenerHost } from "./container-listeners.ts";

/*
 * Checks which web pages may use the port, which requires no key. Browsers send the origin of a page in the Origin
 * header, except with requests whose response the page cannot read, such as those of images and links. With such
 * requests, browsers send only the header Sec-Fetch-Site, which states how the page relates to the port, and which no
 * page can change. Connections of a container listener use its own host name, which no public DNS server knows.
 */

/** The time in seconds for which a browser may cache the response to a preflight request. */
const PREFLIGHT_SECONDS = 600;
/** The response headers that a web page may read. */
const exposedHeaders = "x-request-id, x-berth-ignored, x-should-retry, retry-after";

/**
 * The values of Sec-Fetch-Site of requests that no page of another origin caused: the user entered the address, or the
 * page is of this origin.
 */
const ownSites: ReadonlySet<unknown> = new Set([undefined, "none", "same-origin"]);

/**
 * Checks the Host, Origin and Sec-Fetch-Site headers and throws AssistantError `forbidden` if they are not allowed.
 * Sets the CORS headers for web pages that are allowed. `listenerHost` describes the container listener of the
 * connection; undefined for the endpoint's own address.
 */
export function checkHostAndOrigin(
  request: FastifyRequest,
  reply: FastifyReply,
  allowsOrigin: (origin: string) => boolean,
  listenerHost?: ListenerHost,
): void {
  const { origin, "sec-fetch-site": site } = request.headers;
  // Requests with two Host headers are refused.
  const hosts = getHostHeaders(request.raw.rawHeaders);
  if (hosts.length !== 1 || !hosts.every((host) => isAllowedHost(host, listenerHost))) {
    const names = listenerHost?.isOwn === false ? listenerHost.host : "this machine";
    const hint =
      listenerHost?.isOwn === false ? "OPENAI_BASE_URL" : "http://127.0.0.1 or http://localhost";
    throw new AssistantError("forbidden", `the Host header has to name ${names}: use ${hint}`);
  }
  reply.header("vary", "origin");
  if (origin === undefined ? !ownSites.has(site) : !allowsOrigin(origin)) {
    throw new AssistantError(
      "forbidden",
      "this web page may not use this service; the setting allowed_origins (--allowed-origin) allows pages by their Origin header",
    );
  }
  if (origin === undefined) return;
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
