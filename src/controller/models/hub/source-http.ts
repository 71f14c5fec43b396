import { request as httpRequest, type IncomingHttpHeaders, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import { BerthError } from "../../../base/errors.ts";
import { createTimeLimit } from "../../../base/time-limit.ts";
import { findHostProblem } from "../../../resources/model-source.ts";
import { createSourceLookup } from "../source-lookup.ts";
import { describeNetworkError, hubUnreachableError } from "./hub-errors.ts";

export interface HttpResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** The body of the response; empty for HEAD. */
  readonly body: Buffer;
  /** The URL of the response, after redirects. */
  readonly url: URL;
  /** True if the last request had the token. */
  readonly isAuthorised: boolean;
}

export interface HttpRequest {
  readonly method: "GET" | "HEAD";
  readonly url: URL;
  readonly headers?: Readonly<Record<string, string>>;
  /** The token, which is sent only to the origin of `url`, never to the target of a redirect. */
  readonly token: string | undefined;
  /** The maximum size of the body in bytes; undefined if the body is not read. */
  readonly bodyBytesMax: number | undefined;
  /** The time limit of each request, from the connection to the last byte. */
  readonly limitMs: number;
  /** Returns true if a redirect already has all headers that the caller needs, so that the redirect is not followed. */
  readonly isSufficient?: (response: HttpResponse) => boolean;
}

const REDIRECTS_MAX = 5;

/**
 * Sends a request to a source, and returns the response with any status. Redirects are followed here instead of in
 * fetch, which would send the token to the target, and could not stop at a redirect that has the wanted headers.
 * Throws BerthError `hub_unreachable`, or the signal's reason.
 */
export async function sendHttpRequest(
  options: HttpRequest,
  signal: AbortSignal,
): Promise<HttpResponse> {
  let { url } = options;
  for (let redirects = 0; ; redirects += 1) {
    const response = await sendOnce(options, url, signal);
    const { location } = response.headers;
    if (response.status < 300 || response.status >= 400 || location === undefined) return response;
    if (options.isSufficient?.(response)) return response;
    if (redirects === REDIRECTS_MAX)
      throw hubUnreachableError(options.url, "the server redirects too often");
    url = resolveRedirect(options.url, url, location);
  }
}

function resolveRedirect(original: URL, from: URL, location: string): URL {
  const to = URL.parse(location, from.href) ?? undefined;
  if (to === undefined || (to.protocol !== "https:" && to.protocol !== "http:"))
    throw hubUnreachableError(original, "the server redirects to a URL that is not http");
  if (from.protocol === "https:" && to.protocol === "http:")
    throw hubUnreachableError(
      original,
      "the server redirects from https to http, which is not safe to follow",
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
  const problem = findHostProblem(options.url, url);
  if (problem !== undefined) throw refusedHostError(options.url, url, problem);
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
        `the server does not answer within ${options.limitMs / 1000} s`,
        error,
      );
    throw hubUnreachableError(url, describeNetworkError(error, url), error);
  }
}

/**
 * Sends a request on a new connection, so that no connection stays open. Unlike fetch, this function can use every
 * port.
 */
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
      // No compression is accepted, because the size and the entity tag must describe the file itself.
      "accept-encoding": "identity",
      ...options.headers,
      ...(authorised ? { authorization: `Bearer ${options.token}` } : {}),
    };
    const lookup = createSourceLookup(options.url, (problem) =>
      refusedHostError(options.url, url, problem),
    );
    const request = make(
      url,
      { method: options.method, headers, agent: false, signal, lookup },
      resolve,
    );
    request.on("error", reject);
    request.end();
  });
}

function refusedHostError(original: URL, url: URL, problem: string): BerthError {
  const isRedirected = url.host !== original.host;
  return hubUnreachableError(
    original,
    isRedirected ? `the server redirects to ${url.host}, which ${problem}` : `the host ${problem}`,
  );
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
      throw hubUnreachableError(
        options.url,
        "the response is too large for a list of a repository's files",
      );
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
