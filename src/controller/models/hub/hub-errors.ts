import type { IncomingHttpHeaders } from "node:http";
import { BerthError, getErrorMessage } from "../../../base/errors.ts";
import { parseRetryAfter } from "../../../base/retry-after.ts";

/** As much of an answer as tells why it is none. */
interface RefusedResponse {
  readonly url: URL;
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
}

/** The errors of the port that any server can be the reason of. Messages name hosts, never tokens or queries. */
export function hubUnreachableError(url: URL, why: string, cause?: unknown): BerthError {
  const hint = /CERT|SELF_SIGNED|UNABLE_TO/.test(why)
    ? "its certificate is not trusted here: name the file of its authority in NODE_EXTRA_CA_CERTS"
    : "check the address and the network; it is tried again";
  return new BerthError("hub_unreachable", `${url.host}: ${why}`, { hint, cause });
}

/** 429 and 5xx, and whatever else no server should answer: another try may help. */
export function retryLaterError(answer: RefusedResponse, nowMs: number): BerthError {
  const { url, status, headers } = answer;
  const retryAfterMs = parseWaitMs(headers, nowMs);
  const details = retryAfterMs === undefined ? undefined : { retryAfterMs };
  if (status !== 429)
    return new BerthError("hub_unreachable", `${url.host} answers with HTTP ${status}`, {
      hint: "it is tried again",
      details,
    });
  const wait =
    retryAfterMs === undefined ? "" : `, for ${Math.max(1, Math.ceil(retryAfterMs / 1000))} s`;
  return new BerthError("hub_unreachable", `${url.host} refuses more requests${wait} (HTTP 429)`, {
    hint: "it is tried again after that; with a token, hubs allow more",
    details,
  });
}

/** Retry-After, or the RateLimit header (`"api";r=0;t=155`), by which some hubs say it. */
function parseWaitMs(headers: IncomingHttpHeaders, nowMs: number): number | undefined {
  const retryAfter = parseRetryAfter(headers["retry-after"], nowMs);
  if (retryAfter !== undefined) return retryAfter;
  const { ratelimit } = headers;
  const seconds = /(?:^|;)\s*t=(\d{1,9})/.exec(typeof ratelimit === "string" ? ratelimit : "")?.[1];
  return seconds === undefined ? undefined : Number(seconds) * 1000;
}

/** What a failed connection comes to. */
export function describeNetworkError(error: unknown, { hostname, protocol }: URL): string {
  const code = findErrorCode(error);
  switch (code) {
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return `the name ${hostname} cannot be resolved (${code})`;
    case "ECONNREFUSED":
      return "nothing listens there (ECONNREFUSED)";
    case "EHOSTUNREACH":
    case "ENETUNREACH":
      return `there is no way there (${code})`;
    case "ECONNRESET":
    case "EPIPE":
      return `the connection was cut (${code})`;
    case "ETIMEDOUT":
      return "it does not answer (ETIMEDOUT)";
    case "":
      return getErrorMessage(error);
    default:
      if (code.startsWith("HPE_")) return `what answers does not speak HTTP (${code})`;
      if (protocol === "https:") return `there is no TLS connection to it (${code})`;
      return `it cannot be reached (${code})`;
  }
}

function findErrorCode(error: unknown): string {
  const code: unknown = error instanceof Error && "code" in error ? error.code : undefined;
  if (typeof code === "string") return code;
  // A name with several addresses fails with all their errors.
  if (error instanceof AggregateError) return findErrorCode(error.errors[0]);
  return "";
}
