import { untilAborted } from "../../../base/aborting.ts";
import { delay } from "../../../base/clock.ts";
import type { DataClass } from "../../data-class.ts";
import { AssistantError } from "../../errors.ts";
import type { NewEntry } from "../../ledger/port.ts";
import type { Provider } from "../port.ts";
import type { ProviderAnswer, ProviderLimits } from "../provider-http/port.ts";
import { ProviderRefusal } from "../provider-http/provider-refusal.ts";
import { Withdrawn } from "../withdrawals.ts";
import type { AdaptedBody } from "./adaptations.ts";
import { bearerFor } from "./bearer.ts";
import { wholeText } from "./body-text.ts";
import { OwnAbort } from "./own-abort.ts";
import { type ProviderWords, providerWords } from "./provider-words.ts";
import { statusAfter } from "./status-after.ts";
import type { EgressTools } from "./tools.ts";

/** Beside the first attempt, for what passes by itself. A list of models is asked for again soon anyway. */
const retriesMax = { generate: 2, embed: 2, models: 0 } as const;
const BACKOFF_MS = 250;
/** A provider that wants to be left alone for longer is: the caller hears of it. */
const RETRY_AFTER_MS_MAX = 2_000;

/** To whom, with what in it, and until when. */
export interface Leave {
  readonly provider: Provider;
  readonly classes: readonly DataClass[];
  /** Of them, those that were allowed for this one request. */
  readonly once: readonly DataClass[];
  readonly signal: AbortSignal;
}

export interface OutgoingCall {
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
export class Outgoing {
  readonly #tools: EgressTools;
  readonly #leave: Leave;
  readonly #call: OutgoingCall;
  /** What the next attempts send; undefined: nothing. */
  body: AdaptedBody | undefined;
  #bearer: string | undefined;
  #attempt = 0;
  #isWritten = false;

  constructor(tools: EgressTools, leave: Leave, call: OutgoingCall, body?: AdaptedBody) {
    this.#tools = tools;
    this.#leave = leave;
    this.#call = call;
    this.#bearer = call.bearer;
    this.body = body;
  }

  /** How to speak of the answer to the attempt that was made last. */
  get words(): ProviderWords {
    return providerWords(this.#leave.provider, this.#bearer);
  }

  /**
   * Has the next attempt in the ledger, behind `entries` and by the same commit; resolves to the seq of the
   * first of them. `ledger_unavailable`; the signal's reason.
   */
  async write(...entries: readonly NewEntry[]): Promise<number> {
    this.#attempt += 1;
    const all = [...entries, this.#entry()];
    // Handed over in one turn, so that one commit takes them.
    const written = Promise.all(all.map((entry) => this.#tools.ledger.append(entry)));
    const [first] = await untilAborted(written, this.#leave.signal);
    if (!first) throw new Error("the ledger took nothing");
    this.#isWritten = true;
    return first.seq;
  }

  /** Resolves to an answer of 2xx, which `signal` ends; `over` is to be told what becomes of it. */
  async open(signal: AbortSignal): Promise<ProviderAnswer> {
    const { clock, random } = this.#tools;
    let failures = 0;
    for (;;) {
      if (!this.#isWritten) {
        if (this.#attempt > 0) await this.#askAgain(signal);
        await this.write();
      }
      this.#isWritten = false;
      signal.throwIfAborted();
      try {
        const answer = await this.#send(signal);
        this.body?.keep();
        return answer;
      } catch (error) {
        signal.throwIfAborted();
        this.over(error);
        if (this.body?.change(error) === true) continue;
        if (failures === retriesMax[this.#call.kind] || !mayPass(error)) throw error;
        const backoffMs = BACKOFF_MS * 2 ** failures * (0.75 + random() / 2);
        await delay(clock, Math.max(backoffMs, retryAfterMs(error)), signal);
        failures += 1;
      }
    }
  }

  /** What `read` makes of an answer that is one document. */
  async whole<T>(read: (text: string, words: ProviderWords) => T): Promise<T> {
    using own = new OwnAbort(this.#leave.signal);
    const answer = await this.open(own.signal);
    try {
      const found = read(await wholeText(answer.body()), this.words);
      this.over();
      return found;
    } catch (error) {
      this.over(this.#leave.signal.aborted ? undefined : error);
      throw error;
    }
  }

  /** An answer has come to its end, or to an error. What was withdrawn says nothing of the provider as it is now. */
  over(error?: unknown): void {
    if (this.#leave.signal.reason instanceof Withdrawn) return;
    this.#tools.book.noteStatus(this.#leave.provider.id, statusAfter(error));
  }

  /** A key that was cleared meanwhile, or whose provider was removed, goes out no more. */
  async #askAgain(signal: AbortSignal): Promise<void> {
    const { book } = this.#tools;
    const { provider } = this.#leave;
    const now = book.find(provider.id);
    if (now?.baseUrl !== provider.baseUrl || now.addressClass !== provider.addressClass)
      throw new AssistantError(
        "model_not_found",
        `the provider ${provider.id} was removed while it was asked, and nothing more was sent`,
        { param: "model" },
      );
    this.#bearer = await bearerFor(provider, book, signal);
  }

  #send(signal: AbortSignal): Promise<ProviderAnswer> {
    const { method, path, limits } = this.#call;
    const { provider } = this.#leave;
    const [body, bearer] = [this.body?.value, this.#bearer];
    return this.#tools.http.open({ provider, method, path, body, bearer, limits }, signal);
  }

  #entry(): NewEntry {
    const { provider, classes, once } = this.#leave;
    const { kind, model } = this.#call;
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
const passing: ReadonlySet<number> = new Set([502, 503, 504]);

function mayPass(error: unknown): boolean {
  if (error instanceof ProviderRefusal)
    return passing.has(error.status) && retryAfterMs(error) <= RETRY_AFTER_MS_MAX;
  return (
    error instanceof AssistantError && (error.code === "unreachable" || error.code === "cut_off")
  );
}

function retryAfterMs(error: unknown): number {
  return error instanceof AssistantError ? (error.retryAfterSeconds ?? 0) * 1000 : 0;
}
