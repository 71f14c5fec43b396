import type { Clock } from "../../../base/clock.ts";
import { raceWithAbort } from "../../../base/race-with-abort.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { LoginDetail } from "../port.ts";
import type { OAuthSession } from "../vault/port.ts";
import { CallbackListener, type CallbackReceiver } from "./callback-listener.ts";
import { type FailedLoginDetail, SignInFailure } from "./sign-in-failure.ts";
import type { SignInProtocol, StartedSignIn } from "./sign-in-protocol.ts";

/** How long a person has. */
const ATTEMPT_MS = 5 * 60_000;
/** A browser that loads the page anew reads that it is over, instead of that nobody is there. */
const LINGER_MS = 30_000;

export interface SignInAttemptOptions {
  readonly protocol: SignInProtocol;
  readonly clock: Clock;
  /** Rejects where it could not be kept. */
  keep(session: OAuthSession): Promise<void>;
  /** A session that nobody will have. */
  discard(session: OAuthSession): void;
  /** Once, and only after `open` had a URL to resolve to. */
  ended(detail: LoginDetail, reason: string): void;
}

/**
 * One sign-in, from its listener to its end.
 *
 *   opening -> waiting -> exchanging -> keeping -> over
 *
 * `opening` has no URL yet, so it ends with an error for whoever asked. `waiting` becomes `exchanging` with the first
 * callback, whatever it holds. Up to there, and in the exchange, anybody may end it. What is being kept cannot be
 * taken back: it ends as the sink says.
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
  /** Unix time. */
  expiresAtMs = Number.POSITIVE_INFINITY;

  constructor(options: SignInAttemptOptions) {
    this.#options = options;
  }

  /**
   * Resolves to the URL for the browser, with the listener there. `former`: what has to be over before. `cancelled`
   * where it was ended meanwhile.
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

  /** Whether a person could still sign in by it. */
  get isPending(): boolean {
    return this.#state !== "over" && this.#state !== "opening";
  }

  /** Nothing where it is over, or is being kept already. */
  end(detail: FailedLoginDetail, reason: string = detail): void {
    if (this.#state === "keeping" || this.#state === "over") return;
    const hadUrl = this.#state !== "opening";
    this.#state = "over";
    this.#outcome = detail;
    this.#ending.abort(
      new AssistantError("cancelled", `the sign-in was ended before its time (${detail})`),
    );
    void this[Symbol.asyncDispose]();
    if (hadUrl) this.#options.ended(detail, reason);
  }

  /** When nothing of it is being kept any more. */
  kept(): Promise<void> {
    return this.#keeping;
  }

  isCallback(pathname: string): boolean {
    return this.#started?.isCallback(pathname) === true;
  }

  /**
   * Who names the callback's path and another Host knows what only the browser should, by way of a rebound name
   * or a proxy: its code may be known to others too, so nobody signs in by it.
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
      // It may come all the same, where the answer was on its way.
      redeeming.then(
        (late) => this.#options.discard(late),
        () => {},
      );
      this.#finish(...describeFailure(error));
      return this.#outcome;
    }
    // Ended by somebody in the very turn in which it came.
    if (signal.aborted) {
      this.#options.discard(session);
      return this.#outcome;
    }
    this.#state = "keeping";
    this.#keeping = this.#keep(session);
    await this.#keeping;
    return this.#outcome;
  }

  /** Waits for what is being kept, and for browsers that are being answered. */
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

  /** The end that a callback leads to. */
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
