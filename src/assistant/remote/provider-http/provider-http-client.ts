import { createSecureContext, rootCertificates } from "node:tls";
import type { Dispatcher } from "undici";
import type { Clock } from "../../../base/clock.ts";
import { readPackageVersion } from "../../../base/package-version.ts";
import { AssistantError } from "../../assistant-error.ts";
import { type BaseUrl, parseBaseUrl } from "../address/base-url.ts";
import type { ProviderAddresses } from "../address/provider-addresses.ts";
import { badResponseError, LostConnectionError } from "./connection-errors.ts";
import { createRefusal } from "./create-refusal.ts";
import type { DialDependencies } from "./dial.ts";
import { IdleConnections } from "./idle-connections.ts";
import type { ProviderAnswer, ProviderCall, ProviderHttp } from "./port.ts";
import { ProviderAttempt } from "./provider-attempt.ts";
import { ProviderConnection } from "./provider-connection.ts";
import type { ResponseHead } from "./provider-exchange.ts";
import { redactKey } from "./redact-key.ts";

/**
 * The largest number of concurrent requests. It is far above what a user and their programs start at once; more
 * requests come from a program that is out of control.
 */
const CALLS_MAX = 1_000;

export interface ProviderHttpClientOptions {
  readonly addresses: ProviderAddresses;
  readonly clock: Clock;
  /** Certificates of additional authorities in PEM format, for tests. */
  readonly extraAuthorities?: readonly string[];
}

/**
 * Connects directly to providers, without the proxies of the environment (`HTTPS_PROXY`), because behind a proxy the
 * contacted address is unknown. If a reused connection turns out to be closed before any byte of an answer, it is
 * replaced once; nothing else is retried here.
 */
export class ProviderHttpClient implements ProviderHttp, AsyncDisposable {
  readonly #dialling: DialDependencies;
  readonly #clock: Clock;
  readonly #idle = new IdleConnections();
  readonly #userAgent = `berth/${readPackageVersion()}`;
  readonly #underWay = new Map<ProviderAttempt, ProviderConnection>();
  #isClosing = false;

  constructor(options: ProviderHttpClientOptions) {
    const extra = options.extraAuthorities ?? [];
    this.#clock = options.clock;
    this.#dialling = {
      addresses: options.addresses,
      clock: options.clock,
      trust: createSecureContext(extra.length === 0 ? {} : { ca: [...rootCertificates, ...extra] }),
    };
  }

  async open(call: ProviderCall, signal: AbortSignal): Promise<ProviderAnswer> {
    const { attempt, head } = await this.#sendWithRetry(call, signal);
    if (head.status >= 200 && head.status < 300) return this.#toAnswer(call, attempt, head);
    const { "retry-after": retryAfter, location } = head.headers;
    if (isCompressed(head)) attempt.end(new Error("the answer cannot be read"));
    throw createRefusal(
      {
        providerId: call.provider.id,
        bearer: call.bearer,
        status: head.status,
        retryAfter,
        location,
        body: await attempt.readRefusal(),
      },
      this.#clock.now(),
    );
  }

  /**
   * Closes the idle connections to a provider that was removed. Connections in use close when they have been idle for a
   * while.
   */
  async closeIdle(providerId: string): Promise<void> {
    await this.#idle.end((place) => place.startsWith(`${providerId} `));
  }

  /** Rejects calls in progress with `shutting_down` and closes all connections. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosing = true;
    const connections = [...this.#underWay.values()];
    for (const attempt of this.#underWay.keys()) attempt.end(shuttingDownError());
    await Promise.all(connections.map((connection) => connection.destroy()));
    await this.#idle.end(() => true);
  }

  async #sendWithRetry(
    call: ProviderCall,
    signal: AbortSignal,
  ): Promise<{ readonly attempt: ProviderAttempt; readonly head: ResponseHead }> {
    const url = parseBaseUrl(call.provider.baseUrl);
    const request = this.#buildRequest(call, url);
    const place = `${call.provider.id} ${url.origin} ${call.provider.addressClass}`;
    const send = async (connection: ProviderConnection) => {
      const attempt = this.#startAttempt(connection, { call, url, request, place }, signal);
      return { attempt, head: await attempt.head() };
    };
    this.#throwIfUnavailable(signal);
    try {
      return await send(this.#idle.take(place) ?? this.#createConnection(call, url, place));
    } catch (error) {
      if (!(error instanceof LostConnectionError)) throw error;
    }
    this.#throwIfUnavailable(signal);
    // The retry uses a new connection, because the server has probably closed the other idle connections as well.
    return await send(this.#createConnection(call, url, place));
  }

  #throwIfUnavailable(signal: AbortSignal): void {
    signal.throwIfAborted();
    if (this.#isClosing) throw shuttingDownError();
    if (this.#underWay.size >= CALLS_MAX)
      throw new AssistantError(
        "queue_full",
        `${CALLS_MAX} requests to providers are in progress; try again when some of them have ended`,
      );
  }

  #createConnection(call: ProviderCall, url: BaseUrl, place: string): ProviderConnection {
    const target = { ...url, pinned: call.provider.addressClass };
    return new ProviderConnection(target, this.#dialling, (ended) => this.#idle.drop(place, ended));
  }

  #startAttempt(
    connection: ProviderConnection,
    sending: PreparedRequest,
    signal: AbortSignal,
  ): ProviderAttempt {
    const { call, url, request, place } = sending;
    const attempt = new ProviderAttempt(
      connection,
      {
        named: { providerId: call.provider.id, origin: url.origin },
        request,
        limits: call.limits,
        clock: this.#clock,
        onEnd: (isWhole) => {
          this.#underWay.delete(attempt);
          if (isWhole) connection.markProven();
          if (isWhole && !this.#isClosing) this.#idle.put(place, connection);
          else void connection.destroy();
        },
      },
      signal,
    );
    this.#underWay.set(attempt, connection);
    attempt.start();
    return attempt;
  }

  #buildRequest(call: ProviderCall, url: BaseUrl): Dispatcher.DispatchOptions {
    const { bearer } = call;
    if (bearer !== undefined && !/^[\x21-\x7e]+$/.test(bearer))
      throw new AssistantError(
        "unauthorized",
        `the key of the provider ${call.provider.id} contains characters that no key has; set it again`,
      );
    const body = call.body === undefined ? null : Buffer.from(JSON.stringify(call.body));
    return {
      method: call.method,
      path: url.path + call.path,
      body,
      headers: {
        accept: "application/json, text/event-stream",
        // Compressed answers are not requested, because their size after decompression is not known in advance.
        "accept-encoding": "identity",
        "user-agent": this.#userAgent,
        ...(body && { "content-type": "application/json" }),
        ...(bearer !== undefined && { authorization: `Bearer ${bearer}` }),
      },
    };
  }

  #toAnswer(call: ProviderCall, attempt: ProviderAttempt, head: ResponseHead): ProviderAnswer {
    if (isCompressed(head)) {
      const named = { providerId: call.provider.id, origin: "" };
      const error = badResponseError(
        named,
        "the answer is compressed, which Berth did not request",
      );
      attempt.end(error);
      throw error;
    }
    return {
      status: head.status,
      contentType: parseContentType(head, call.bearer),
      body: () => attempt.body(),
    };
  }
}

interface PreparedRequest {
  readonly call: ProviderCall;
  readonly url: BaseUrl;
  readonly request: Dispatcher.DispatchOptions;
  /** Identifies the destination. Calls with the same `place` may reuse each other's connections. */
  readonly place: string;
}

function isCompressed({ headers }: ResponseHead): boolean {
  const encoding = headers["content-encoding"];
  return encoding !== undefined && encoding !== "" && encoding.toLowerCase() !== "identity";
}

/**
 * Returns the media type of the answer; "" if the header contains no media type. The header is checked, because it can
 * contain anything, even the key.
 */
function parseContentType({ headers }: ResponseHead, bearer: string | undefined): string {
  const type = headers["content-type"]?.split(";", 1)[0]?.trim().toLowerCase() ?? "";
  return /^[\w.+-]+\/[\w.+-]+$/.test(type) && redactKey(type, bearer?.toLowerCase()) === type
    ? type
    : "";
}

function shuttingDownError(): AssistantError {
  return new AssistantError("shutting_down", "the assistant is shutting down");
}
