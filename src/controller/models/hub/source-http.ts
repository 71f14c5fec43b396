import { request as httpRequest, type IncomingHttpHeaders, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import { BerthError } from "../../../base/errors.ts";
import { createTimeLimit } from "../../../base/time-limit.ts";
import { describeNetworkError, hubUnreachableError } from "./hub-errors.ts";

export interface HttpResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** Empty for HEAD. */
  readonly body: Buffer;
  /** Where it came from, after redirects. */
  readonly url: URL;
  /** Whether the last request carried the token. */
  readonly isAuthorised: boolean;
}

export interface HttpRequest {
  readonly method: "GET" | "HEAD";
  readonly url: URL;
  readonly headers?: Readonly<Record<string, string>>;
  /** Goes to the origin of `url` only, wherever that redirects. */
  readonly token: string | undefined;
  /** More than this of a body is a failure; undefined: the body is not read at all. */
  readonly bodyBytesMax: number | undefined;
  /** For each request, from its connection to the last byte that is read. */
  readonly limitMs: number;
  /** True for an answer that says enough, although it redirects. */
  readonly isSufficient?: (answer: HttpResponse) => boolean;
}

const REDIRECTS_MAX = 5;

/**
 * One question about a source. Any status is an answer. Redirects are followed by hand, because fetch would
 * take neither the token off nor stop at one that says enough. Throws BerthError `hub_unreachable`, or the
 * signal's reason.
 */
export async function sendHttpRequest(
  options: HttpRequest,
  signal: AbortSignal,
): Promise<HttpResponse> {
  let { url } = options;
  for (let redirects = 0; ; redirects += 1) {
    const answer = await sendOnce(options, url, signal);
    const { location } = answer.headers;
    if (answer.status < 300 || answer.status >= 400 || location === undefined) return answer;
    if (options.isSufficient?.(answer)) return answer;
    if (redirects === REDIRECTS_MAX)
      throw hubUnreachableError(options.url, "it redirects in circles");
    url = resolveRedirect(options.url, url, location);
  }
}

function resolveRedirect(asked: URL, from: URL, location: string): URL {
  const to = URL.parse(location, from.href) ?? undefined;
  if (to === undefined || (to.protocol !== "https:" && to.protocol !== "http:"))
    throw hubUnreachableError(asked, "it redirects to something that is not http");
  if (from.protocol === "https:" && to.protocol === "http:")
    throw hubUnreachableError(
      asked,
      "it redirects from https to http, which is not safe to follow",
    );
  to.username = "";
  to.password = "";
  return to;
}

async function sendOnce(
  options: HttpRequest,
  url: URL,
  signal: AbortSignal,
): Promise<HttpResponse> {
  signal.throwIfAborted();
  using limit = createTimeLimit(signal, options.limitMs);
  const authorised = options.token !== undefined && url.origin === options.url.origin;
  try {
    const response = await openRequest(options, url, authorised, limit.signal);
    try {
      const { statusCode = 0, headers } = response;
      const body = await readBody(options, response);
      return { status: statusCode, headers, body, url, isAuthorised: authorised };
    } finally {
      response.destroy();
    }
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    if (error instanceof BerthError) throw error;
    if (limit.signal.aborted)
      throw hubUnreachableError(
        url,
        `it does not answer within ${options.limitMs / 1000} s`,
        error,
      );
    throw hubUnreachableError(url, describeNetworkError(error, url), error);
  }
}

/** A connection for each request: none is left open behind, and no port is off limits, as with fetch. */
function openRequest(
  options: HttpRequest,
  url: URL,
  authorised: boolean,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const make = url.protocol === "https:" ? httpsRequest : httpRequest;
    const headers = {
      "user-agent": "berth",
      // Sizes and tags are to be those of the file, not of a packed form of it.
      "accept-encoding": "identity",
      ...options.headers,
      ...(authorised ? { authorization: `Bearer ${options.token}` } : {}),
    };
    const request = make(url, { method: options.method, headers, agent: false, signal }, resolve);
    request.on("error", reject);
    request.end();
  });
}

async function readBody(options: HttpRequest, response: IncomingMessage): Promise<Buffer> {
  const { bodyBytesMax } = options;
  if (options.method === "HEAD" || bodyBytesMax === undefined) return Buffer.alloc(0);
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response) {
    if (!Buffer.isBuffer(chunk)) continue;
    bytes += chunk.length;
    if (bytes > bodyBytesMax)
      throw hubUnreachableError(options.url, "its answer is longer than any listing");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
