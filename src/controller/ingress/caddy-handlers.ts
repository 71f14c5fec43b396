import type { Json } from "../../base/canonical-json.ts";
import { isAtLeast } from "./caddy-version.ts";

export type CaddyHandler = { readonly [key: string]: Json };

/** Values of Retry-After, in seconds: one for an App that is about to start, and one for an App in maintenance. */
export const RETRY_SOON = "5";
export const RETRY_LATER = "120";

/**
 * Builds a handler that forwards a request to one of the targets. `dials` contains their addresses, or Caddy
 * placeholders.
 */
export function proxyHandler(
  version: string,
  dials: readonly string[],
  tryDuration: string,
): CaddyHandler {
  return {
    handler: "reverse_proxy",
    upstreams: dials.map((dial) => ({ dial })),
    load_balancing: {
      // Targets are chosen at random. All Apps would share the counter of a round-robin policy: alternating requests to
      // two Apps would reach only one replica of each.
      ...(dials.length > 1 ? { selection_policy: { policy: "random" } } : {}),
      // After a failed connection, another replica is tried. Only GET requests, and requests that were not sent, are
      // repeated.
      try_duration: tryDuration,
      try_interval: "50ms",
    },
    transport: {
      protocol: "http",
      // The keep-alive time is below the 5 s of Node's server, so that no request is sent on a connection that Node
      // closes.
      keep_alive: { enabled: true, idle_timeout: "4s", max_idle_conns_per_host: 64 },
    },
    // From version 2.7 on, Caddy can keep WebSockets open when a configuration is loaded. Earlier versions close the
    // WebSockets, and do not know this field.
    ...(isAtLeast(version, 2, 7) ? { stream_close_delay: "1h" } : {}),
  };
}

/** Builds a handler that sets those forwarding headers that Caddy's proxy does not set. */
export function forwardedHeadersHandler(strippedPrefix: string): CaddyHandler {
  const prefix =
    strippedPrefix === "" ? {} : { "X-Forwarded-Prefix": [escapePlaceholders(strippedPrefix)] };
  return {
    handler: "headers",
    request: { set: { "X-Real-Ip": ["{http.request.remote.host}"], ...prefix } },
  };
}

/** Builds a handler that answers with an HTML page. */
export function pageHandler(
  status: number | string,
  body: string,
  retryAfter?: string,
): CaddyHandler {
  return {
    handler: "static_response",
    status_code: status,
    headers: {
      "Content-Type": ["text/html; charset=utf-8"],
      "Cache-Control": ["no-store"],
      ...(retryAfter === undefined ? {} : { "Retry-After": [retryAfter] }),
    },
    body: escapePlaceholders(body),
  };
}

/**
 * Escapes text of users, because Caddy would replace a placeholder such as `{env.HOME}` in a page by the variable.
 */
export function escapePlaceholders(text: string): string {
  return text.replaceAll(/[{}]/g, (brace) => `\\${brace}`);
}
