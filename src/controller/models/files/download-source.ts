import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import type { BerthError } from "../../../base/errors.ts";
import { findHostProblem } from "../../../resources/model-source.ts";
import { createSourceLookup } from "../source-lookup.ts";
import { sourceUnreachableError } from "./download-errors.ts";

const REDIRECTS_MAX = 10;

export interface SourceResponse {
  readonly response: IncomingMessage;
  /** The server that sent the response, as messages name it. */
  readonly host: string;
  /**
   * The target of an earlier redirect, if the request went directly to that target; undefined if it went to the
   * original URL.
   */
  readonly rememberedRedirect: URL | undefined;
}

/**
 * The server of one file. This class follows redirects instead of the HTTP client: the token is sent only to its own
 * origin, and a redirect from https to http is refused. Later requests use the target of the redirect directly while
 * it answers. (The URLs to which hubs redirect expire.)
 */
export class DownloadSource implements Disposable {
  readonly #original: URL;
  readonly #token: string | undefined;
  readonly #userAgent: string;
  readonly #http: HttpAgent;
  readonly #https: HttpsAgent;
  #rememberedRedirect: URL | undefined;

  constructor(options: {
    readonly url: string;
    readonly token: string | undefined;
    readonly userAgent: string;
    readonly connectionsMax: number;
  }) {
    this.#original = new URL(options.url);
    this.#token = options.token;
    this.#userAgent = options.userAgent;
    const agent = { keepAlive: true, maxSockets: options.connectionsMax };
    this.#http = new HttpAgent(agent);
    this.#https = new HttpsAgent(agent);
  }

  get hasToken(): boolean {
    return this.#token !== undefined;
  }

  get host(): string {
    return this.#original.host;
  }

  /** Makes the next request use the original URL again. */
  forgetRedirect(remembered: URL): void {
    if (this.#rememberedRedirect === remembered) this.#rememberedRedirect = undefined;
  }

  /**
   * Returns the first response that is not a redirect, with its body unread. Rejects with the errors of node:http, or
   * with `hub_unreachable`.
   */
  async request(headers: Record<string, string>, signal: AbortSignal): Promise<SourceResponse> {
    const remembered = this.#rememberedRedirect;
    let url = remembered ?? this.#original;
    for (let redirects = 0; ; redirects += 1) {
      const response = await this.#send(url, headers, signal);
      const { location } = response.headers;
      const status = response.statusCode ?? 0;
      if (![301, 302, 303, 307, 308].includes(status) || location === undefined) {
        if (redirects > 0 && status < 300) this.#rememberedRedirect = url;
        return { response, host: url.host, rememberedRedirect: remembered };
      }
      response.destroy();
      if (redirects === REDIRECTS_MAX)
        throw sourceUnreachableError(`${this.host} redirects more than ${REDIRECTS_MAX} times`);
      url = resolveRedirect(url, location);
    }
  }

  #send(url: URL, headers: Record<string, string>, signal: AbortSignal): Promise<IncomingMessage> {
    const problem = findHostProblem(this.#original, url);
    if (problem !== undefined) return Promise.reject(this.#createRefusal(url, problem));
    const isMeant = url.origin === this.#original.origin && this.#token !== undefined;
    const all = {
      "user-agent": this.#userAgent,
      // No compression is accepted, because byte ranges would be those of the compressed body instead of the file.
      "accept-encoding": "identity",
      ...headers,
      ...(isMeant ? { authorization: `Bearer ${this.#token}` } : {}),
    };
    const lookup = createSourceLookup(this.#original, (found) => this.#createRefusal(url, found));
    return new Promise((resolve, reject) => {
      const request =
        url.protocol === "https:"
          ? httpsRequest(url, { headers: all, signal, lookup, agent: this.#https })
          : httpRequest(url, { headers: all, signal, lookup, agent: this.#http });
      request.on("response", resolve);
      request.on("error", reject);
      request.end();
    });
  }

  #createRefusal(url: URL, problem: string): BerthError {
    return sourceUnreachableError(
      url.host === this.host
        ? `${this.host} ${problem}`
        : `${this.host} redirects to ${url.host}, which ${problem}`,
    );
  }

  [Symbol.dispose](): void {
    this.#http.destroy();
    this.#https.destroy();
  }
}

function resolveRedirect(from: URL, location: string): URL {
  const to = URL.parse(location, from.href) ?? undefined;
  if (to === undefined || (to.protocol !== "https:" && to.protocol !== "http:"))
    throw sourceUnreachableError(`${from.host} redirects to a URL that is not http`);
  if (from.protocol === "https:" && to.protocol === "http:")
    throw sourceUnreachableError(
      `${from.host} redirects from https to http, which is not safe to follow`,
    );
  to.username = "";
  to.password = "";
  to.hash = "";
  return to;
}
