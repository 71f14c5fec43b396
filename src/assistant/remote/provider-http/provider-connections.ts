import { createSecureContext, rootCertificates } from "node:tls";
import type { Dispatcher } from "undici";
import type { Clock } from "../../../base/clock.ts";
import { packageVersion } from "../../../base/package-version.ts";
import { AssistantError } from "../../errors.ts";
import { type BaseUrl, parseBaseUrl } from "../address/base-url.ts";
import type { ProviderAddresses } from "../address/provider-addresses.ts";
import { Attempt } from "./attempt.ts";
import { Connection } from "./connection.ts";
import { badResponse, LostConnection } from "./connection-failures.ts";
import type { Dialling } from "./dial.ts";
import type { Head } from "./exchange.ts";
import { KeptConnections } from "./kept-connections.ts";
import { withoutKey } from "./key-scrub.ts";
import type { ProviderAnswer, ProviderCall, ProviderHttp } from "./port.ts";
import { refusalOf } from "./refusals.ts";

/** Far above what a person and their programs start at once; past it something has run wild. */
const CALLS_MAX = 1_000;

export interface ProviderConnectionsOptions {
  readonly addresses: ProviderAddresses;
  readonly clock: Clock;
  /** PEM of authorities that are trusted beside the usual ones; for tests. */
  readonly extraAuthorities?: readonly string[];
}

/**
 * Connections to providers, straight: the environment's proxies (`HTTPS_PROXY`) are not used, since behind one
 * nobody can tell which address is asked. A kept connection that turns out to be closed, before any byte of an
 * answer, is replaced by a new one, once; nothing else is tried again here.
 */
export class ProviderConnections implements ProviderHttp, AsyncDisposable {
  readonly #dialling: Dialling;
  readonly #clock: Clock;
  readonly #kept = new KeptConnections();
  readonly #userAgent = `berth/${packageVersion()}`;
  readonly #underWay = new Map<Attempt, Connection>();
  #isClosing = false;

  constructor(options: ProviderConnectionsOptions) {
    const extra = options.extraAuthorities ?? [];
    this.#clock = options.clock;
    this.#dialling = {
      addresses: options.addresses,
      clock: options.clock,
      trust: createSecureContext(extra.length === 0 ? {} : { ca: [...rootCertificates, ...extra] }),
    };
  }

  async open(call: ProviderCall, signal: AbortSignal): Promise<ProviderAnswer> {
    const { attempt, head } = await this.#sent(call, signal);
    if (head.status >= 200 && head.status < 300) return this.#answer(call, attempt, head);
    const { "retry-after": retryAfter, location } = head.headers;
    if (isCompressed(head)) attempt.end(new Error("it cannot be read"));
    throw refusalOf(
      {
        providerId: call.provider.id,
        bearer: call.bearer,
        status: head.status,
        retryAfter,
        location,
        body: await attempt.words(),
      },
      this.#clock.now(),
    );
  }

  /** Ends the kept connections to a provider that was removed; others end by themselves after a while. */
  async forget(providerId: string): Promise<void> {
    await this.#kept.end((place) => place.startsWith(`${providerId} `));
  }

  /** Calls under way end with `shutting_down`. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosing = true;
    const connections = [...this.#underWay.values()];
    for (const attempt of this.#underWay.keys()) attempt.end(shuttingDown());
    await Promise.all(connections.map((connection) => connection.destroy()));
    await this.#kept.end(() => true);
  }

  async #sent(
    call: ProviderCall,
    signal: AbortSignal,
  ): Promise<{ readonly attempt: Attempt; readonly head: Head }> {
    const url = parseBaseUrl(call.provider.baseUrl);
    const request = this.#requestOf(call, url);
    const place = `${call.provider.id} ${url.origin} ${call.provider.addressClass}`;
    const send = async (connection: Connection) => {
      const attempt = this.#attempt(connection, { call, url, request, place }, signal);
      return { attempt, head: await attempt.head() };
    };
    this.#throwIfNone(signal);
    try {
      return await send(this.#kept.take(place) ?? this.#connection(call, url, place));
    } catch (error) {
      if (!(error instanceof LostConnection)) throw error;
    }
    this.#throwIfNone(signal);
    // A new one: whoever closed that connection has closed the other kept ones too.
    return await send(this.#connection(call, url, place));
  }

  #throwIfNone(signal: AbortSignal): void {
    signal.throwIfAborted();
    if (this.#isClosing) throw shuttingDown();
    if (this.#underWay.size >= CALLS_MAX)
      throw new AssistantError(
        "queue_full",
        `${CALLS_MAX} requests to providers are under way; try again when some of them have ended`,
      );
  }

  #connection(call: ProviderCall, url: BaseUrl, place: string): Connection {
    const target = { ...url, pinned: call.provider.addressClass };
    return new Connection(target, this.#dialling, (ended) => this.#kept.drop(place, ended));
  }

  #attempt(connection: Connection, sending: Sending, signal: AbortSignal): Attempt {
    const { call, url, request, place } = sending;
    const attempt = new Attempt(
      connection,
      {
        named: { providerId: call.provider.id, origin: url.origin },
        request,
        limits: call.limits,
        clock: this.#clock,
        onEnd: (isWhole) => {
          this.#underWay.delete(attempt);
          if (isWhole) connection.prove();
          if (isWhole && !this.#isClosing) this.#kept.put(place, connection);
          else void connection.destroy();
        },
      },
      signal,
    );
    this.#underWay.set(attempt, connection);
    attempt.start();
    return attempt;
  }

  #requestOf(call: ProviderCall, url: BaseUrl): Dispatcher.DispatchOptions {
    const { bearer } = call;
    if (bearer !== undefined && !/^[\x21-\x7e]+$/.test(bearer))
      throw new AssistantError(
        "unauthorized",
        `the key of the provider ${call.provider.id} has characters that no key has; set it again`,
      );
    const body = call.body === undefined ? null : Buffer.from(JSON.stringify(call.body));
    return {
      method: call.method,
      path: url.path + call.path,
      body,
      headers: {
        accept: "application/json, text/event-stream",
        // What would be unpacked has no limit that is known before.
        "accept-encoding": "identity",
        "user-agent": this.#userAgent,
        ...(body && { "content-type": "application/json" }),
        ...(bearer !== undefined && { authorization: `Bearer ${bearer}` }),
      },
    };
  }

  #answer(call: ProviderCall, attempt: Attempt, head: Head): ProviderAnswer {
    if (isCompressed(head)) {
      const named = { providerId: call.provider.id, origin: "" };
      const error = badResponse(named, "a compressed answer, which was not asked for");
      attempt.end(error);
      throw error;
    }
    return {
      status: head.status,
      contentType: contentTypeOf(head, call.bearer),
      body: () => attempt.body(),
    };
  }
}

interface Sending {
  readonly call: ProviderCall;
  readonly url: BaseUrl;
  readonly request: Dispatcher.DispatchOptions;
  /** Connections to the same one may be kept for each other. */
  readonly place: string;
}

function isCompressed({ headers }: Head): boolean {
  const encoding = headers["content-encoding"];
  return encoding !== undefined && encoding !== "" && encoding.toLowerCase() !== "identity";
}

/** Empty for what is no type: a header can hold anything, the key too. */
function contentTypeOf({ headers }: Head, bearer: string | undefined): string {
  const type = headers["content-type"]?.split(";", 1)[0]?.trim().toLowerCase() ?? "";
  return /^[\w.+-]+\/[\w.+-]+$/.test(type) && withoutKey(type, bearer?.toLowerCase()) === type
    ? type
    : "";
}

function shuttingDown(): AssistantError {
  return new AssistantError("shutting_down", "the assistant is shutting down");
}
