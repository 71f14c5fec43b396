import type { Clock } from "../../../base/clock.ts";
import { raceWithAbort } from "../../../base/race-with-abort.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { LoginDetail } from "../port.ts";
import type { OAuthSession } from "../vault/port.ts";
import { CallbackListener, type CallbackReceiver } from "./callback-listener.ts";
import { type FailedLoginDetail, SignInFailure } from "./sign-in-failure.ts";
import type { SignInProtocol, StartedSignIn } from "./sign-in-protocol.ts";

/** The time within which the user must complete a sign-in. */
const ATTEMPT_MS = 5 * 60_000;
/**
 * The time that the listener stays open after the sign-in. A browser that reloads the page then learns that the sign-in
 * has ended.
 */
const LINGER_MS = 30_000;

export interface SignInAttemptOptions {
  readonly protocol: SignInProtocol;
  readonly clock: Clock;
  /** Stores the session. Rejects if that fails. */
  keep(session: OAuthSession): Promise<void>;
  /** Called with a session that will not be stored. The receiver should revoke the session. */
  discard(session: OAuthSession): void;
  /** Called once when the sign-in has ended, but only if `open` has resolved to a URL. */
  ended(detail: LoginDetail, reason: string): void;
}

/**
 * One sign-in, with these states:
 *
 * opening -> waiting -> exchanging -> keeping -> over
 *
 * In the state `opening` there is no URL yet, so a failure rejects the call of `open`. The first callback, whatever it
 * contains, leads from `waiting` to `exchanging`. The sign-in can be cancelled until the exchange ends. In the state
 * `keeping` the session is being stored; from then on only the success or failure of storing decides the outcome.
 */
export class SignInAttempt implements CallbackReceiver, AsyncDisposable {
  readonly #options: SignInAttemptOptions;
  readonly #ending = new AbortController();
  #state: "opening" | "waiting" | "exchanging" | "keeping" | "over" = "opening";
  #listener: CallbackListener | undefined;
  #started: StartedSignIn | undefined;
  #stopTimer = () => {};
  #keeping: Promise<void> = Promise.resolve();
  #outcome: LoginDetail | undefined;
  #isClosing = false;
  /** The time at which this sign-in expires, in milliseconds since the Unix epoch. */
  expiresAtMs = Number.POSITIVE_INFINITY;

  constructor(options: SignInAttemptOptions) {
    this.#options = options;
  }

  /**
   * Resolves to the URL for the browser once the listener is open. First waits for `former`, the end of the earlier
   * sign-in. Rejects with `cancelled` if the sign-in was ended meanwhile.
   */
  async open(former: Promise<void>): Promise<string> {
    const { signal } = this.#ending;
    this.#keeping = former;
    try {
      await raceWithAbort(former, signal);
      this.#listener = await CallbackListener.open(this);
      signal.throwIfAborted();
      this.#started = await raceWithAbort(
        this.#options.protocol.start(this.#listener.origin, signal),
        signal,
      );
      signal.throwIfAborted();
    } catch (error) {
      this.#state = "over";
      await this[Symbol.asyncDispose]();
      throw error;
    }
    this.#state = "waiting";
    this.expiresAtMs = this.#options.clock.now() + ATTEMPT_MS;
    this.#stopTimer = this.#options.clock.setTimer(ATTEMPT_MS, () => this.end("timeout"));
    return this.#started.authorizeUrl;
  }

  /** True from the time when the URL is known until the sign-in has ended. */
  get isPending(): boolean {
    return this.#state !== "over" && this.#state !== "opening";
  }

  /** Ends the sign-in. Does nothing if it has ended already, or if its session is already being stored. */
  end(detail: FailedLoginDetail, reason: string = detail): void {
    if (this.#state === "keeping" || this.#state === "over") return;
    const hadUrl = this.#state !== "opening";
    this.#state = "over";
    this.#outcome = detail;
    this.#ending.abort(new AssistantError("cancelled", `the sign-in was cancelled (${detail})`));
    void this[Symbol.asyncDispose]();
    if (hadUrl) this.#options.ended(detail, reason);
  }

  /** Resolves when this sign-in's session was stored or storing failed; at once if no session is being stored. */
  kept(): Promise<void> {
    return this.#keeping;
  }

  isCallback(pathname: string): boolean {
    return this.#started?.isCallback(pathname) === true;
  }

  /**
   * Ends the sign-in. A callback with the right path but another Host header comes through DNS rebinding or a proxy,
   * and other programs may know its code.
   */
  receiveByOtherHost(): void {
    if (this.#state === "waiting") this.end("state_mismatch", "host");
  }

  async receive(callback: URL): Promise<LoginDetail | undefined> {
    if (this.#state !== "waiting" || !this.#started) return undefined;
    this.#state = "exchanging";
    const { signal } = this.#ending;
    const redeeming = this.#started.redeem(callback, signal);
    let session: OAuthSession;
    try {
      session = await raceWithAbort(redeeming, signal);
    } catch (error) {
      // After a cancellation, the provider's answer may still arrive with a session. `discard` then revokes that
      // session.
      redeeming.then(
        (late) => this.#options.discard(late),
        () => {},
      );
      this.#finish(...describeFailure(error));
      return this.#outcome;
    }
    // The session arrived in the same turn of the event loop in which the sign-in was cancelled, so it must be
    // discarded.
    if (signal.aborted) {
      this.#options.discard(session);
      return this.#outcome;
    }
    this.#state = "keeping";
    this.#keeping = this.#keep(session);
    await this.#keeping;
    return this.#outcome;
  }

  /** Waits until the session is stored and open browser requests are answered. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosing = true;
    this.#stopTimer();
    await this.#keeping;
    await this.#listener?.[Symbol.asyncDispose]();
  }

  async #keep(session: OAuthSession): Promise<void> {
    try {
      await this.#options.keep(session);
    } catch {
      this.#options.discard(session);
      this.#finish("storage_failed", "not_kept");
      return;
    }
    this.#finish("ok", "ok");
  }

  /** Ends the sign-in after a failure of the callback or of the exchange. */
  #finish(detail: LoginDetail, reason: string): void {
    if (this.#state === "over") return;
    this.#state = "over";
    this.#outcome = detail;
    this.#stopTimer();
    if (!this.#isClosing)
      this.#stopTimer = this.#options.clock.setTimer(
        LINGER_MS,
        () => void this[Symbol.asyncDispose](),
      );
    this.#options.ended(detail, reason);
  }
}

function describeFailure(error: unknown): [FailedLoginDetail, string] {
  if (error instanceof SignInFailure) return [error.detail, error.reason];
  return ["exchange_failed", error instanceof AssistantError ? error.code : "unknown"];
}
