import type { IncomingHttpHeaders } from "node:http";
import { BerthError, getErrorCode, getErrorMessage } from "../../../base/errors.ts";
import { parseRetryAfter } from "../../../base/retry-after.ts";

/** The parts of a response that explain a refusal. */
interface RefusedResponse {
  readonly url: URL;
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
}

/** Creates the error of a server that cannot be reached. Messages name hosts, never tokens or queries. */
export function hubUnreachableError(url: URL, why: string, cause?: unknown): BerthError {
  const hint = /CERT|SELF_SIGNED|UNABLE_TO/.test(why)
    ? "the server's certificate is not trusted on this machine: set NODE_EXTRA_CA_CERTS to the file of its certificate authority"
    : "check the address and the network; Berth will retry";
  return new BerthError("hub_unreachable", `${url.host}: ${why}`, { hint, cause });
}

/** Creates the error for status 429, 5xx or an unexpected status, after which another attempt may succeed. */
export function retryLaterError(response: RefusedResponse, nowMs: number): BerthError {
  const { url, status, headers } = response;
  const retryAfterMs = parseWaitMs(headers, nowMs);
  const details = retryAfterMs === undefined ? undefined : { retryAfterMs };
  if (status !== 429)
    return new BerthError("hub_unreachable", `${url.host} answers with HTTP ${status}`, {
      hint: "Berth will retry",
      details,
    });
  const wait =
    retryAfterMs === undefined ? "" : `, for ${Math.max(1, Math.ceil(retryAfterMs / 1000))} s`;
  return new BerthError("hub_unreachable", `${url.host} refuses more requests${wait} (HTTP 429)`, {
    hint: "Berth will retry later; hubs allow more requests with a token",
    details,
  });
}

/** Reads Retry-After, or the RateLimit header (`"api";r=0;t=155`) that some hubs send. */
function parseWaitMs(headers: IncomingHttpHeaders, nowMs: number): number | undefined {
  const retryAfter = parseRetryAfter(headers["retry-after"], nowMs);
  if (retryAfter !== undefined) return retryAfter;
  const { ratelimit } = headers;
  const seconds = /(?:^|;)\s*t=(\d{1,9})/.exec(typeof ratelimit === "string" ? ratelimit : "")?.[1];
  return seconds === undefined ? undefined : Number(seconds) * 1000;
}

export function describeNetworkError(error: unknown, { hostname, protocol }: URL): string {
  const code = findErrorCode(error);
  switch (code) {
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return `the name ${hostname} cannot be resolved (${code})`;
    case "ECONNREFUSED":
      return "it refused the connection (ECONNREFUSED)";
    case "EHOSTUNREACH":
    case "ENETUNREACH":
      return `there is no network route to the host (${code})`;
    case "ECONNRESET":
    case "EPIPE":
      return `the connection was cut (${code})`;
    case "ETIMEDOUT":
      return "it does not answer (ETIMEDOUT)";
    case "":
      return getErrorMessage(error);
    default:
      if (code.startsWith("HPE_")) return `the response is not HTTP (${code})`;
      if (protocol === "https:") return `the TLS connection failed (${code})`;
      return `it cannot be reached (${code})`;
  }
}

function findErrorCode(error: unknown): string {
  const code: unknown = getErrorCode(error);
  if (typeof code === "string") return code;
  // A connection to a host name with several addresses fails with one error for each. The code of the first error is
  // returned.
  if (error instanceof AggregateError) return findErrorCode(error.errors[0]);
  return "";
}
