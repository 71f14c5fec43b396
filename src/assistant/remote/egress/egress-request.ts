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

/** Beside the first attempt, for what passes by itself. A list of models is asked for again soon anyway. */
const retriesMax = { generate: 2, embed: 2, models: 0 } as const;
const BACKOFF_MS = 250;
/** A provider that wants to be left alone for longer is: the caller hears of it. */
const RETRY_AFTER_MS_MAX = 2_000;

/** To whom, with what in it, and until when. */
export interface EgressAuthorization {
  readonly provider: Provider;
  readonly classes: readonly DataClass[];
  /** Of them, those that were allowed for this one request. */
  readonly once: readonly DataClass[];
  readonly signal: AbortSignal;
}

export interface EgressRequestOptions {
  readonly kind: "generate" | "embed" | "models";
  /** The full remote name; null: of no model. */
  readonly model: string | null;
  readonly method: "GET" | "POST";
  readonly path: string;
  /** Of the first attempt. */
  readonly bearer: string | undefined;
  readonly limits: ProviderLimits;
}

/**
 * One request to a provider, in one or more attempts: each is in the ledger before a byte of it leaves. Tried
 * again is only what failed before its answer began: no connection, and 502, 503 and 504, which come
 * from something before the provider; and, changed, what a provider refuses for the name of a parameter.
 */
export class EgressRequest {
  readonly #dependencies: EgressDependencies;
  readonly #authorization: EgressAuthorization;
  readonly #options: EgressRequestOptions;
  /** What the next attempts send; undefined: nothing. */
  body: AdaptedBody | undefined;
  #bearer: string | undefined;
  #attempt = 0;
  #isInLedger = false;

  constructor(
    tools: EgressDependencies,
    leave: EgressAuthorization,
    call: EgressRequestOptions,
    body?: AdaptedBody,
  ) {
    this.#dependencies = tools;
    this.#authorization = leave;
    this.#options = call;
    this.#bearer = call.bearer;
    this.body = body;
  }

  /** How to speak of the answer to the attempt that was made last. */
  get errors(): ProviderErrors {
    return createProviderErrors(this.#authorization.provider, this.#bearer);
  }

  /**
   * Has the next attempt in the ledger, behind `entries` and by the same commit; resolves to the seq of the
   * first of them. `ledger_unavailable`; the signal's reason.
   */
  async appendToLedger(...entries: readonly NewEntry[]): Promise<number> {
    this.#attempt += 1;
    const all = [...entries, this.#entry()];
    // Handed over in one turn, so that one commit takes them.
    const written = Promise.all(all.map((entry) => this.#dependencies.ledger.append(entry)));
    const [first] = await raceWithAbort(written, this.#authorization.signal);
    if (!first) throw new Error("the ledger took nothing");
    this.#isInLedger = true;
    return first.seq;
  }

  /** Resolves to an answer of 2xx, which `signal` ends; `over` is to be told what becomes of it. */
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
        const backoffMs = BACKOFF_MS * 2 ** failures * (0.75 + random() / 2);
        await delay(clock, Math.max(backoffMs, getRetryAfterMs(error)), signal);
        failures += 1;
      }
    }
  }

  /** What `read` makes of an answer that is one document. */
  async readDocument<T>(read: (text: string, words: ProviderErrors) => T): Promise<T> {
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

  /** An answer has come to its end, or to an error. What was withdrawn says nothing of the provider as it is now. */
  reportOutcome(error?: unknown): void {
    if (this.#authorization.signal.reason instanceof Revoked) return;
    this.#dependencies.providers.noteStatus(this.#authorization.provider.id, getStatusAfter(error));
  }

  /** A key that was cleared meanwhile, or whose provider was removed, goes out no more. */
  async #renewBearer(signal: AbortSignal): Promise<void> {
    const { providers: directory } = this.#dependencies;
    const { provider } = this.#authorization;
    const now = directory.find(provider.id);
    if (now?.baseUrl !== provider.baseUrl || now.addressClass !== provider.addressClass)
      throw new AssistantError(
        "model_not_found",
        `the provider ${provider.id} was removed while it was asked, and nothing more was sent`,
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

/** Of what comes from in front of the provider, and is mostly over soon. */
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
