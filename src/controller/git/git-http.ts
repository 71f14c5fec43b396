import { request as httpRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import type { GitHttpRequest, GitHttpResponse } from "isomorphic-git";
import { BerthError } from "../../base/errors.ts";
import {
  describeNetworkError,
  gitDenied,
  gitUnreachable,
  repositoryNotFound,
} from "./git-errors.ts";
import type { GitUrl } from "./git-url.ts";
import { type IdleTimeout, IdleTimer } from "./idle-timer.ts";

/** Thrown when a response is larger than this client's limit. The caller can then use another client. */
export class TransferTooLargeError extends Error {}

export interface GitHttpOptions {
  readonly url: GitUrl;
  readonly login: { readonly username: string; readonly password: string } | undefined;
  readonly idleTimeout: IdleTimeout;
  /** The limit of bytes of one response, decompressed. */
  readonly bytesMax: number;
}

const REDIRECTS_MAX = 5;
const REFS_PATH = "/info/refs?service=git-upload-pack";

/**
 * The HTTP client for isomorphic-git. (The library's own client sends credentials along on redirects, has no time
 * limits, and reads without back-pressure.) The caller has to check `failure`, because isomorphic-git accepts some
 * truncated responses as complete. Node verifies certificates; NODE_EXTRA_CA_CERTS names a file with further
 * certificate authorities.
 */
export class GitHttp implements Disposable {
  /** The first failure: a BerthError, TransferTooLargeError, or the reason of an abort. */
  failure: unknown;
  readonly #options: GitHttpOptions;
  readonly #closing = new AbortController();
  readonly #signal: AbortSignal;
  /** The URL of the repository after a redirect. Later requests use it, as in git itself. */
  #base: string;

  constructor(options: GitHttpOptions, signal: AbortSignal) {
    this.#options = options;
    this.#base = options.url.address;
    this.#signal = AbortSignal.any([signal, this.#closing.signal]);
  }

  /** The URL of the repository for isomorphic-git. */
  get address(): string {
    return this.#options.url.address;
  }

  /** The repository's URL, after redirects. */
  get base(): string {
    return this.#base;
  }

  /** Returns the credentials for `base`; none if they belong to another server. */
  get authorization(): string | undefined {
    const { login, url } = this.#options;
    if (login === undefined || !isSameServer(url.address, this.#base)) return undefined;
    const both = `${login.username}:${login.password}`;
    return `Basic ${Buffer.from(both, "utf8").toString("base64")}`;
  }

  /** Closes every open connection of this client. */
  [Symbol.dispose](): void {
    this.#closing.abort(new DOMException("closed", "AbortError"));
  }

  /** Sends an HTTP request for isomorphic-git, which calls this function. Throws unless a git server answers. */
  readonly request = async (request: GitHttpRequest): Promise<GitHttpResponse> => {
    try {
      return await this.#request(request);
    } catch (error) {
      throw this.#recordFailure(error);
    }
  };

  /** Throws the first failure, which the library may have ignored. */
  throwIfFailed(): void {
    this.#signal.throwIfAborted();
    if (this.failure !== undefined) throw this.failure;
  }

  async #request(request: GitHttpRequest): Promise<GitHttpResponse> {
    const path = request.url.slice(this.#options.url.address.length);
    const idle = new IdleTimer(this.#options.idleTimeout);
    const signal = AbortSignal.any([this.#signal, idle.signal]);
    try {
      const body = await concatBody(request.body);
      for (let redirects = 0; ; redirects++) {
        const sent = {
          method: request.method ?? "GET",
          headers: this.#buildHeaders(request.headers),
        };
        const response = await sendRequest(this.#base + path, sent, body, signal);
        idle.touch();
        const status = response.statusCode ?? 0;
        const { location } = response.headers;
        if (status >= 300 && status < 400 && location !== undefined) {
          response.destroy();
          if (redirects === REDIRECTS_MAX)
            throw this.#unreachableError("the server redirects too often");
          this.#base = this.#resolveRedirect(path, location);
          continue;
        }
        try {
          if (status !== 200) throw this.#statusError(status);
          this.#checkType(response, path);
        } catch (error) {
          response.destroy();
          throw error;
        }
        return {
          url: this.#base + path,
          method: request.method,
          headers: textHeaders(response),
          statusCode: status,
          statusMessage: response.statusMessage ?? "",
          body: this.#readBody(response, idle),
        };
      }
    } catch (error) {
      idle.stop();
      throw idle.signal.aborted ? idle.signal.reason : error;
    }
  }

  #buildHeaders(given: Readonly<Record<string, string>> | undefined): Record<string, string> {
    const { authorization } = this;
    return {
      ...given,
      // The User-Agent is that of git, because some servers respond to any other client with a page for browsers.
      "user-agent": "git/2.0 (berth)",
      ...(authorization === undefined ? {} : { authorization }),
    };
  }

  async *#readBody(response: IncomingMessage, idle: IdleTimer): AsyncGenerator<Uint8Array, void> {
    let bytes = 0;
    try {
      for await (const chunk of response) {
        idle.touch();
        if (!Buffer.isBuffer(chunk)) continue;
        bytes += chunk.length;
        if (bytes > this.#options.bytesMax) throw new TransferTooLargeError();
        yield chunk;
      }
    } catch (error) {
      throw this.#recordFailure(idle.signal.aborted ? idle.signal.reason : error);
    } finally {
      idle.stop();
    }
  }

  #recordFailure(error: unknown): unknown {
    this.failure ??= this.#signal.aborted
      ? this.#signal.reason
      : error instanceof BerthError || error instanceof TransferTooLargeError
        ? error
        : this.#unreachableError(describeNetworkError(error), error);
    return this.failure;
  }

  /**
   * Follows a redirect as git does: only the base URL of the repository may change, and the rest of the path must be
   * the same.
   */
  #resolveRedirect(path: string, location: string): string {
    const from = new URL(this.#base + path);
    const to = URL.parse(location, from.href) ?? undefined;
    if (to === undefined || (to.protocol !== "https:" && to.protocol !== "http:"))
      throw this.#unreachableError("the server redirects to a URL that is not http");
    if (from.protocol === "https:" && to.protocol === "http:")
      throw this.#unreachableError(
        "the server redirects from https to http, which is not safe to follow",
      );
    to.username = "";
    to.password = "";
    if (!to.href.endsWith(path))
      throw repositoryNotFound(
        this.#displayUrl,
        `the server redirects to ${to.origin}, which has no repository at this path`,
      );
    return to.href.slice(0, -path.length);
  }

  #statusError(status: number): BerthError {
    const { login } = this.#options;
    const redirectedTo = isSameServer(this.#options.url.address, this.#base)
      ? undefined
      : new URL(this.#base).origin;
    // Status 203 counts as a refusal too, because one large git service sends its sign-in page with it.
    if (status === 401 || status === 403 || status === 203) {
      if (login !== undefined && redirectedTo !== undefined)
        return gitDenied(
          this.#displayUrl,
          `the server redirects to ${redirectedTo}, which requires credentials, but Berth sends credentials to no other server`,
          "if the other server may get the token, write its URL in the spec",
        );
      return login === undefined
        ? gitDenied(
            this.#displayUrl,
            "the server requires credentials",
            "make a Secret with the key token, and name it in credential",
          )
        : gitDenied(
            this.#displayUrl,
            `the server does not accept the token (HTTP ${status})`,
            "check that the token is valid and may read the repository; some servers require a certain username in the Secret",
          );
    }
    if (status === 404 || status === 410) return repositoryNotFound(this.#displayUrl);
    return this.#unreachableError(`the server answers with HTTP ${status}`);
  }

  #checkType(response: IncomingMessage, path: string): void {
    const type = response.headers["content-type"]?.split(";")[0]?.trim();
    const wanted =
      path === REFS_PATH
        ? "application/x-git-upload-pack-advertisement"
        : "application/x-git-upload-pack-result";
    if (type !== wanted)
      throw repositoryNotFound(this.#displayUrl, "the server is not a git server, or is too old");
  }

  get #displayUrl(): string {
    return this.#options.url.displayUrl;
  }

  #unreachableError(why: string, cause?: unknown): BerthError {
    const certificate = /CERT|SELF_SIGNED|UNABLE_TO_VERIFY/.test(why)
      ? "this machine does not trust the server's certificate: name the file of its certificate authority in NODE_EXTRA_CA_CERTS"
      : undefined;
    return gitUnreachable(this.#displayUrl, why, cause, certificate);
  }
}

/**
 * Sends a request on its own connection, so that no connection stays open. (fetch keeps connections open for seconds,
 * and refuses some ports.)
 */
function sendRequest(
  url: string,
  options: { readonly method: string; readonly headers: Record<string, string> },
  body: Uint8Array | undefined,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const make = url.startsWith("https:") ? httpsRequest : httpRequest;
    const request = make(url, { ...options, agent: false, signal }, resolve);
    request.on("error", reject);
    request.end(body);
  });
}

function textHeaders(response: IncomingMessage): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(response.headers))
    if (typeof value === "string") headers[name] = value;
  return headers;
}

/**
 * True if both URLs have the same host and port, or if the second one upgrades http to https on the same host with
 * the default ports.
 */
function isSameServer(given: string, actual: string): boolean {
  const [from, to] = [new URL(given), new URL(actual)];
  if (from.origin === to.origin) return true;
  const upgraded = from.protocol === "http:" && to.protocol === "https:";
  return upgraded && from.hostname === to.hostname && from.port === "" && to.port === "";
}

async function concatBody(
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array> | undefined,
): Promise<Uint8Array | undefined> {
  if (body === undefined) return undefined;
  const parts: Uint8Array[] = [];
  for await (const part of body) parts.push(part);
  return Buffer.concat(parts);
}
