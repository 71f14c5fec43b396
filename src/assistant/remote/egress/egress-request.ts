import { backoffMs } from "../../../base/backoff.ts";
import { delay } from "../../../base/clock.ts";
import { raceWithAbort } from "../../../base/race-with-abort.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { DataClass } from "../../data-class.ts";
import type { NewEntry } from "../../ledger/port.ts";
import type { Provider } from "../port.ts";
import type { ProviderAnswer, ProviderLimits } from "../provider-http/port.ts";
import { ProviderRefusal } from "../provider-http/provider-refusal.ts";
import { Revoked } from "../revocations.ts";
import type { AdaptedBody } from "./adaptations.ts";
import { readWholeText } from "./body-text.ts";
import type { EgressDependencies } from "./egress-dependencies.ts";
import { LinkedAbort } from "./linked-abort.ts";
import { createProviderErrors, type ProviderErrors } from "./provider-errors.ts";
import { getStatusAfter } from "./provider-status.ts";
import { requireBearer } from "./require-bearer.ts";

/** Retries after temporary failures. A list of models is not retried, because it is requested again soon. */
const retriesMax = { generate: 2, embed: 2, models: 0 } as const;
/** 250 and 500 ms, each up to 25 % shorter or longer. */
const BACKOFF = { firstMs: 312.5, maxMs: 5_000, jitter: 0.4 } as const;
/** If a provider's Retry-After is longer, the caller gets the error at once. */
const RETRY_AFTER_MS_MAX = 2_000;

/** Destination and content of a request, and the signal that ends it. */
export interface EgressAuthorization {
  readonly provider: Provider;
  readonly classes: readonly DataClass[];
  /** Those of `classes` that are allowed for this one request only. */
  readonly once: readonly DataClass[];
  readonly signal: AbortSignal;
}

export interface EgressRequestOptions {
  readonly kind: "generate" | "embed" | "models";
  /** The full remote name; null if the request concerns no model. */
  readonly model: string | null;
  readonly method: "GET" | "POST";
  readonly path: string;
  /** The token for the first attempt. */
  readonly bearer: string | undefined;
  readonly limits: ProviderLimits;
}

/**
 * One request to a provider in one or more attempts; each attempt is in the ledger before a byte of it is sent. Only
 * failures before the answer began are retried: no connection, and 502, 503 and 504, which proxies send in front of the
 * provider. A body that the provider refuses because of a parameter's name is adapted and sent again.
 */
export class EgressRequest {
  readonly #dependencies: EgressDependencies;
  readonly #authorization: EgressAuthorization;
  readonly #options: EgressRequestOptions;
  /** The body of the next attempts; undefined for none. */
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

  /** Creates the errors for the answer of the last attempt. */
  get errors(): ProviderErrors {
    return createProviderErrors(this.#authorization.provider, this.#bearer);
  }

  /**
   * Appends the next attempt to the ledger, after `entries` and in the same commit. Resolves to the seq of the first
   * entry. Rejects with `ledger_unavailable` and the signal's reason.
   */
  async appendToLedger(...entries: readonly NewEntry[]): Promise<number> {
    this.#attempt += 1;
    const all = [...entries, this.#entry()];
    // Appended within one turn, so that they are in one commit.
    const written = Promise.all(all.map((entry) => this.#dependencies.ledger.append(entry)));
    const [first] = await raceWithAbort(written, this.#authorization.signal);
    if (!first) throw new Error("the ledger returned no receipt");
    this.#isInLedger = true;
    return first.seq;
  }

  /**
   * Resolves to an answer with status 2xx, which `signal` ends. The caller must pass its outcome to `reportOutcome`.
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

  /** Sends the request and resolves to the result of `read` for the whole answer. */
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
   * Updates the provider's status after an answer ended or failed. A revocation says nothing about the provider, so it
   * is ignored.
   */
  reportOutcome(error?: unknown): void {
    if (this.#authorization.signal.reason instanceof Revoked) return;
    this.#dependencies.providers.noteStatus(this.#authorization.provider.id, getStatusAfter(error));
  }

  /** Reads the credential again: a key that was removed meanwhile, or whose provider was removed, must not be sent. */
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
    const { provider, classes, once } = this.#authorization;
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
        bytes: this.body?.bytes ?? 0,
        attempt: this.#attempt,
      },
    };
  }
}

/** Sent by proxies in front of the provider; mostly temporary. */
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
