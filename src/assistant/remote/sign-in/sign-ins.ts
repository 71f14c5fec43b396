import { Agent, type Dispatcher } from "undici";
import { type Clock, timestamp } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import { raceWithAbort } from "../../../base/race-with-abort.ts";
import { createTimeLimit } from "../../../base/time-limit.ts";
import type { SignInConfig } from "../../../config/sign-in-config.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { BuiltInProvider, LoginDetail, PendingLogin } from "../port.ts";
import type { Credential, OAuthSession } from "../vault/port.ts";
import { OpenIdConnectSignIn } from "./openid-connect.ts";
import { OpenRouterSignIn } from "./openrouter.ts";
import type { SignInSink, SignIns } from "./port.ts";
import { SignInAttempt } from "./sign-in-attempt.ts";
import { isLoopbackHttp, SignInHttpClient } from "./sign-in-http-client.ts";
import type { SignInProtocol } from "./sign-in-protocol.ts";

const REQUEST_MS = 15_000;
const REVOKE_MS = 5_000;

export interface OAuthSignInsOptions {
  readonly endpoints: SignInConfig;
  readonly sink: SignInSink;
  readonly clock: Clock;
  readonly logger: Logger;
  /**
   * The undici dispatcher for requests to providers. If it is undefined, OAuthSignIns creates an Agent with its own
   * connections.
   */
  readonly dispatcher?: Dispatcher;
  /** The time limit for each request to a provider. Default: 15 s. */
  readonly requestMs?: number;
}

/**
 * Sign-in at the built-in providers. The browser returns to a listener on this machine. See
 * `docs/remote-credentials.md`.
 */
export class OAuthSignIns implements SignIns, AsyncDisposable {
  readonly #options: OAuthSignInsOptions;
  readonly #protocols: Readonly<Record<BuiltInProvider, SignInProtocol>>;
  #ownConnections: Agent | undefined;
  /**
   * The latest sign-in of each provider. A sign-in that has ended remains here until its listener closes or another
   * sign-in starts.
   */
  readonly #attempts = new Map<BuiltInProvider, SignInAttempt>();
  /**
   * The renewals in progress, keyed by refresh token. Callers share a renewal, because each token can be used only
   * once.
   */
  readonly #refreshing = new Map<string, Promise<OAuthSession>>();
  readonly #background = new Set<Promise<unknown>>();
  readonly #closing = new AbortController();

  constructor(options: OAuthSignInsOptions) {
    this.#options = options;
    let { dispatcher } = options;
    if (!dispatcher) {
      // The verification of certificates is switched on explicitly, because NODE_TLS_REJECT_UNAUTHORIZED would change
      // the default.
      this.#ownConnections = new Agent({ connect: { rejectUnauthorized: true } });
      dispatcher = this.#ownConnections;
    }
    const limitMs = options.requestMs ?? REQUEST_MS;
    const requestsTo = (address: string) =>
      new SignInHttpClient({
        dispatcher,
        limitMs,
        isLoopbackAllowed: isLoopbackHttp(new URL(address)),
      });
    const { openrouter, huggingface } = options.endpoints;
    this.#protocols = {
      openrouter: new OpenRouterSignIn(openrouter, requestsTo(openrouter.exchangeUrl)),
      huggingface: new OpenIdConnectSignIn(
        huggingface,
        requestsTo(huggingface.issuer),
        options.clock,
      ),
    };
  }

  async begin(provider: BuiltInProvider): Promise<string> {
    this.#closing.signal.throwIfAborted();
    const former = this.#attempts.get(provider);
    const attempt = new SignInAttempt({
      protocol: this.#protocols[provider],
      clock: this.#options.clock,
      keep: (session) => this.#options.sink.keep(provider, session),
      discard: (session) => this.#inBackground(this.revoke(provider, session)),
      ended: (detail, reason) => this.#ended(provider, detail, reason),
    });
    this.#attempts.set(provider, attempt);
    former?.end("superseded");
    if (former) this.#inBackground(former[Symbol.asyncDispose]());
    const opening = attempt.open(former?.kept() ?? Promise.resolve());
    this.#inBackground(Promise.allSettled([opening]));
    try {
      return await opening;
    } catch (error) {
      if (this.#attempts.get(provider) === attempt) this.#attempts.delete(provider);
      throw error;
    }
  }

  cancel(provider: BuiltInProvider): void {
    this.#attempts.get(provider)?.end("cancelled");
  }

  pending(): readonly PendingLogin[] {
    return [...this.#attempts]
      .filter(([, attempt]) => attempt.isPending)
      .map(([provider, { expiresAtMs }]) => ({
        provider_id: provider,
        expires_at: timestamp(expiresAtMs),
      }));
  }

  /**
   * Renews a session. Concurrent callers with the same session share one renewal. It continues even if they abort,
   * because the session's refresh token has already been used.
   */
  refresh(
    provider: BuiltInProvider,
    session: OAuthSession,
    signal: AbortSignal,
  ): Promise<OAuthSession> {
    const key = `${provider} ${session.refreshToken ?? ""}`;
    const running =
      this.#refreshing.get(key) ??
      this.#protocols[provider]
        .refresh(session, this.#closing.signal)
        .finally(() => this.#refreshing.delete(key));
    this.#refreshing.set(key, running);
    return raceWithAbort(running, signal);
  }

  async revoke(provider: BuiltInProvider, session: Credential): Promise<void> {
    if (session.kind !== "oauth") return;
    using limit = createTimeLimit(new AbortController().signal, REVOKE_MS);
    try {
      await raceWithAbort(this.#protocols[provider].revoke(session, limit.signal), limit.signal);
    } catch {
      this.#options.logger.warn({ provider }, "a session could not be revoked at its provider");
    }
  }

  /** Ends sign-ins in progress as `cancelled`. If a sign-in is storing its session, waits for that instead. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new AssistantError("shutting_down", "the assistant is shutting down"));
    for (const attempt of this.#attempts.values()) attempt.end("cancelled");
    await Promise.all([...this.#attempts.values()].map((one) => one[Symbol.asyncDispose]()));
    while (this.#background.size > 0) await Promise.all(this.#background);
    await Promise.allSettled(this.#refreshing.values());
    await this.#ownConnections?.destroy();
  }

  #ended(provider: BuiltInProvider, detail: LoginDetail, reason: string): void {
    this.#options.logger.info({ provider, detail, reason }, "a sign-in has ended");
    try {
      this.#options.sink.completed(provider, detail === "ok", detail);
    } catch (err) {
      this.#options.logger.error(
        { provider, err },
        "the result of a sign-in could not be reported",
      );
    }
  }

  #inBackground(work: Promise<unknown>): void {
    const done = work.finally(() => this.#background.delete(done));
    this.#background.add(done);
  }
}
