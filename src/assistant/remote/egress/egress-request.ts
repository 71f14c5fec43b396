import { backoffMs } from "../../../base/backoff.ts";
import { delay } from "../../../base/clock.ts";
import { raceWithAbort } from "../../../base/race-with-abort.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { DataClass } from "../../data-class.ts";
import type { Asker } from "../../inference/service-port.ts";
import type { NewEntry } from "../../ledger/port.ts";
import type { Provider } from "../port.ts";
import type { ProviderAnswer, ProviderLimits } from "../provider-http/port.ts";
import { ProviderRefusal } from "../provider-http/provider-refusal.ts";
import { Revoked } from "../revocations.ts";
import type { AdaptedBody } from "./adaptations.ts";
import { toAskerField } from "./asker-field.ts";
import { readWholeText } from "./body-text.ts";
import type { EgressDependencies } from "./egress-dependencies.ts";
import { LinkedAbort } from "./linked-abort.ts";
import { createProviderErrors, type ProviderErrors } from "./provider-errors.ts";
import { getStatusAfter } from "./provider-status.ts";
import { requireBearer } from "./require-bearer.ts";

/**
 * The number of retries after temporary failures. Requests for a list of models are not retried, because the list is
 * requested again soon.
 */
const retriesMax = { generate: 2, embed: 2, models: 0 } as const;
/** The delays before the retries: 250 and 500 ms, each up to 25 % shorter or longer. */
const BACKOFF = { firstMs: 312.5, maxMs: 5_000, jitter: 0.4 } as const;
/**
 * The longest Retry-After that is obeyed. If the provider asks for a longer delay, the caller gets the error at once.
 */
const RETRY_AFTER_MS_MAX = 2_000;

/** The destination, the data classes and the asker of a request, and the signal that ends it. */
export interface EgressAuthorization {
  readonly provider: Provider;
  readonly classes: readonly DataClass[];
  /** The data classes in `classes` that the user allows for this request only. */
  readonly once: readonly DataClass[];
  readonly asker: Asker | undefined;
  readonly signal: AbortSignal;
}

export interface EgressRequestOptions {
  readonly kind: "generate" | "embed" | "models";
  /** The full name of the remote model; null if the request concerns no model. */
  readonly model: string | null;
  readonly method: "GET" | "POST";
  readonly path: string;
  /**
   * The token for the Authorization header of the first attempt; undefined if the provider has no credential. Later
   * attempts read the credential again.
   */
  readonly bearer: string | undefined;
  readonly limits: ProviderLimits;
}

/**
 * One request to a provider in one or more attempts; each attempt is in the ledger before a byte of it is sent. Only
 * failures before the start of the answer are retried: failed connections, and the statuses 502, 503 and 504 of proxies
 * in front of the provider. If the provider refuses the name of a parameter, the body is adapted and sent again.
 */
export class EgressRequest {
  readonly #dependencies: EgressDependencies;
  readonly #authorization: EgressAuthorization;
  readonly #options: EgressRequestOptions;
  /** The body that the next attempts send; undefined for requests without a body. */
  body: AdaptedBody | undefined;
  #bearer: string | undefined;
  #attempt = 0;
  #isInLedger = false;

  constructor(
    dependencies: EgressDependencies,
    authorization: EgressAuthorization,
    options: EgressRequestOptions,
    body?: AdaptedBody,
  ) {
    this.#dependencies = dependencies;
    this.#authorization = authorization;
    this.#options = options;
    this.#bearer = options.bearer;
    this.body = body;
  }

  /**
   * Returns the constructors for errors about the provider's answer. If a message of the provider contains the key that
   * was sent last, the constructors redact the key.
   */
  get errors(): ProviderErrors {
    return createProviderErrors(this.#authorization.provider, this.#bearer);
  }

  /**
   * Appends `entries` and an entry about the next attempt to the ledger, in one commit. Resolves to the seq of the
   * first entry. Rejects with `ledger_unavailable`, or with the signal's reason.
   */
  async appendToLedger(...entries: readonly NewEntry[]): Promise<number> {
    this.#attempt += 1;
    const all = [...entries, this.#entry()];
    // Nothing is awaited between the calls of `append`, so that the ledger writes all entries in one commit.
    const written = Promise.all(all.map((entry) => this.#dependencies.ledger.append(entry)));
    const [first] = await raceWithAbort(written, this.#authorization.signal);
    if (!first) throw new Error("the ledger returned no receipt");
    this.#isInLedger = true;
    return first.seq;
  }

  /**
   * Sends the request, with retries, and resolves to an answer with status 2xx. `signal` aborts the answer too. The
   * caller must pass the outcome of the answer to `reportOutcome`.
   */
  async open(signal: AbortSignal): Promise<ProviderAnswer> {
    const { clock, random } = this.#dependencies;
    let failures = 0;
    for (;;) {
      if (!this.#isInLedger) {
        if (this.#attempt > 0) await this.#renewBearer(signal);
        await this.appendToLedger();
      }
      this.#isInLedger = false;
      signal.throwIfAborted();
      try {
        const answer = await this.#send(signal);
        this.body?.remember();
        return answer;
      } catch (error) {
        signal.throwIfAborted();
        this.reportOutcome(error);
        if (this.body?.tryAdapt(error) === true) continue;
        if (failures === retriesMax[this.#options.kind] || !isTransient(error)) throw error;
        const waitMs = backoffMs(failures, { ...BACKOFF, random });
        await delay(clock, Math.max(waitMs, getRetryAfterMs(error)), signal);
        failures += 1;
      }
    }
  }

  /** Sends the request, reads the whole answer and resolves to the result of `read`. */
  async readDocument<T>(read: (text: string, errors: ProviderErrors) => T): Promise<T> {
    using own = new LinkedAbort(this.#authorization.signal);
    const answer = await this.open(own.signal);
    try {
      const found = read(await readWholeText(answer.body()), this.errors);
      this.reportOutcome();
      return found;
    } catch (error) {
      this.reportOutcome(this.#authorization.signal.aborted ? undefined : error);
      throw error;
    }
  }

  /**
   * Updates the provider's status after an answer ended or failed. A request that ended because of a revocation is
   * ignored, because a revocation says nothing about the provider.
   */
  reportOutcome(error?: unknown): void {
    if (this.#authorization.signal.reason instanceof Revoked) return;
    this.#dependencies.providers.noteStatus(this.#authorization.provider.id, getStatusAfter(error));
  }

  /**
   * Reads the credential again before a retry, because a key that was removed meanwhile, or whose provider was removed,
   * must not be sent.
   */
  async #renewBearer(signal: AbortSignal): Promise<void> {
    const { providers: directory } = this.#dependencies;
    const { provider } = this.#authorization;
    const now = directory.find(provider.id);
    if (now?.baseUrl !== provider.baseUrl || now.addressClass !== provider.addressClass)
      throw new AssistantError(
        "model_not_found",
        `the provider ${provider.id} was removed during the request, and nothing more was sent`,
        { param: "model" },
      );
    this.#bearer = await requireBearer(provider, directory, signal);
  }

  #send(signal: AbortSignal): Promise<ProviderAnswer> {
    const { method, path, limits } = this.#options;
    const { provider } = this.#authorization;
    const [body, bearer] = [this.body?.value, this.#bearer];
    return this.#dependencies.http.open({ provider, method, path, body, bearer, limits }, signal);
  }

  #entry(): NewEntry {
    const { provider, classes, once, asker } = this.#authorization;
    const { kind, model } = this.#options;
    return {
      name: "egress.send",
      fields: {
        provider: provider.id,
        model,
        origin: new URL(provider.baseUrl).origin,
        kind,
        classes,
        once,
        asker: toAskerField(asker),
        bytes: this.body?.bytes ?? 0,
        attempt: this.#attempt,
      },
    };
  }
}

/** The statuses that proxies in front of the provider send for mostly temporary failures. */
const transientStatuses: ReadonlySet<number> = new Set([502, 503, 504]);

function isTransient(error: unknown): boolean {
  if (error instanceof ProviderRefusal)
    return transientStatuses.has(error.status) && getRetryAfterMs(error) <= RETRY_AFTER_MS_MAX;
  return (
    error instanceof AssistantError && (error.code === "unreachable" || error.code === "cut_off")
  );
}

function getRetryAfterMs(error: unknown): number {
  return error instanceof AssistantError ? (error.retryAfterSeconds ?? 0) * 1000 : 0;
}
