import type { Json } from "../../base/canonical-json.ts";
import { escapePlaceholders, proxyHandler, RETRY_SOON } from "./caddy-handlers.ts";

/** The site of Berth's REST API, which the ingress serves under its own domain. */
export interface ApiSite {
  readonly domain: string;
  /** The path of the Unix socket on which Berth accepts requests to the API. Caddy uses the same path. */
  readonly socket: string;
  /**
   * Addresses and networks of proxies in front of the ingress. The ingress keeps the X-Forwarded-For of their
   * requests.
   */
  readonly trustedProxies: readonly string[];
}

/** The time for which Caddy holds a request while Berth is starting. */
const TRY_DURATION = "5s";

const unavailable = JSON.stringify({
  error: "Berth does not answer: it is starting, or it was stopped. Try again soon",
});

/**
 * Builds the route to the API. Unless the sender is a trusted proxy, Caddy replaces the X-Forwarded-For of a request by
 * the sender's address, so that clients cannot forge it.
 */
export function buildApiRoute(version: string, site: ApiSite): { readonly [key: string]: Json } {
  const { domain, socket, trustedProxies } = site;
  const proxy = {
    ...proxyHandler(version, [`unix/${socket}`], TRY_DURATION),
    ...(trustedProxies.length === 0 ? {} : { trusted_proxies: trustedProxies }),
  };
  const failed = {
    handler: "static_response",
    status_code: 503,
    headers: {
      "Content-Type": ["application/json; charset=utf-8"],
      "Retry-After": [RETRY_SOON],
      "X-Error-Code": ["server_unreachable"],
    },
    body: escapePlaceholders(unavailable),
  };
  return {
    match: [{ host: [domain] }],
    handle: [
      {
        handler: "subroute",
        routes: [{ handle: [proxy] }],
        errors: { routes: [{ handle: [failed] }] },
      },
    ],
    terminal: true,
  };
}
