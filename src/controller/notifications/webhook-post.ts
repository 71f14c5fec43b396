import { type IncomingMessage, type RequestOptions, request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import type { Clock } from "../../base/clock.ts";
import { BerthError, getErrorMessage } from "../../base/errors.ts";
import { createGuardedLookup } from "../../base/http/guarded-lookup.ts";
import { isMetadataAddress } from "../../base/ip-address.ts";
import { getHost, refusedAddressError } from "../../resources/webhook-url.ts";

/** The time limit from the start of the connection to the last byte that is read. */
export const POST_MS_MAX = 10_000;
/** The limit of a response body; the rest is not read. */
const BODY_BYTES_MAX = 4 * 1024;

export interface PostResponse {
  readonly status: number;
  readonly retryAfter: string | undefined;
  /** The body of the response up to its first 4 KiB, or as far as it arrived before the connection ended. */
  readonly text: string;
}

/**
 * Sends one POST on a connection of its own; redirects are not followed. Throws BerthError `timeout`,
 * `server_unreachable`, or `invalid_request` for an address that is not allowed; rejects with the signal's reason when
 * it aborts.
 */
export function postWebhook(
  target: {
    readonly url: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly body: string;
  },
  clock: Clock,
  signal: AbortSignal,
): Promise<PostResponse> {
  const url = new URL(target.url);
  const body = Buffer.from(target.body, "utf8");
  return new Promise((resolve, reject) => {
    const host = getHost(url);
    if (isMetadataAddress(host)) return reject(refusedAddressError(host));
    if (signal.aborted) return reject(signal.reason);
    const options: RequestOptions = {
      method: "POST",
      agent: false,
      lookup: guardedLookup,
      headers: {
        ...target.headers,
        "content-type": "application/json",
        "content-length": body.length,
      },
    };
    const request =
      url.protocol === "https:" ? requestHttps(url, options) : requestHttp(url, options);
    let finish: (() => void) | undefined;
    const end = (act: () => void) => {
      cancelTimer();
      signal.removeEventListener("abort", onAbort);
      act();
      request.destroy();
    };
    const onAbort = () => end(() => reject(signal.reason));
    const cancelTimer = clock.setTimer(POST_MS_MAX, () => {
      // Only the status decides if the delivery succeeds, so a body that never ends does not matter.
      if (finish) finish();
      else end(() => reject(new BerthError("timeout", `no answer within ${POST_MS_MAX / 1000} s`)));
    });
    signal.addEventListener("abort", onAbort, { once: true });
    request.on("error", (error) => {
      if (finish) finish();
      else end(() => reject(toBerthError(error, url)));
    });
    request.on("response", (response) => {
      const chunks: Buffer[] = [];
      finish = () => end(() => resolve(buildPostResponse(response, chunks)));
      const onEnd = finish;
      let bytes = 0;
      response.on("data", (chunk: Buffer) => {
        chunks.push(chunk);
        bytes += chunk.length;
        if (bytes >= BODY_BYTES_MAX) onEnd();
      });
      response.on("end", onEnd);
      response.on("error", onEnd);
      response.on("close", onEnd);
    });
    request.end(body);
    return undefined;
  });
}

/**
 * The addresses are checked at each connection, because those of a name may have changed after the webhook was created.
 */
const guardedLookup = createGuardedLookup((address) =>
  isMetadataAddress(address) ? refusedAddressError(address) : undefined,
);

function buildPostResponse(response: IncomingMessage, chunks: readonly Buffer[]): PostResponse {
  return {
    status: response.statusCode ?? 0,
    retryAfter: response.headers["retry-after"],
    text: Buffer.concat(chunks).subarray(0, BODY_BYTES_MAX).toString("utf8"),
  };
}

function toBerthError(error: Error, url: URL): BerthError {
  if (error instanceof BerthError) return error;
  const code = "code" in error ? String(error.code) : "";
  return new BerthError("server_unreachable", describeNetworkError(code, error, url), {
    cause: error,
  });
}

function describeNetworkError(
  code: string,
  error: Error,
  { host, hostname, protocol }: URL,
): string {
  switch (code) {
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return `the name ${hostname} cannot be resolved`;
    case "ECONNREFUSED":
      return `nothing listens at ${host}`;
    case "EHOSTUNREACH":
    case "ENETUNREACH":
      return `there is no route to ${host}`;
    case "ECONNRESET":
    case "EPIPE":
      return `${host} cut the connection before it answered`;
    case "ETIMEDOUT":
      return `${host} does not answer`;
    default:
      if (code.startsWith("HPE_")) return `${host} does not speak HTTP`;
      if (protocol === "https:" && code !== "") return `no TLS connection to ${host} (${code})`;
      return code === "" ? getErrorMessage(error) : `${host} cannot be reached (${code})`;
  }
}
