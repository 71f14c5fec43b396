import type { Json } from "../../base/canonical-json.ts";

const forgedHeaders = [
  "Forwarded",
  "X-Forwarded-Port",
  "X-Forwarded-Prefix",
  "X-Forwarded-Server",
  "X-Forwarded-Ssl",
];

/**
 * A route of Caddy that removes headers that apps would trust, and that clients can forge. Caddy itself sets
 * X-Forwarded-For, -Host and -Proto. The route matches only requests with such a header, because hardly any request has
 * one, and the deletion of a missing header costs time too.
 */
export const removeForgedHeadersRoute: { readonly [key: string]: Json } = {
  match: forgedHeaders.map((name) => ({ header: { [name]: [] } })),
  handle: [{ handler: "headers", request: { delete: forgedHeaders } }],
};
