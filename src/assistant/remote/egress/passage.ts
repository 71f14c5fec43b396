import { type DataClass, type Egress, promptOnly } from "../../data-class.ts";
import { AssistantError } from "../../errors.ts";
import type { Provider } from "../port.ts";
import type { Leave } from "./outgoing.ts";
import { OVER } from "./own-abort.ts";
import type { ConsentRules, ProviderBook } from "./port.ts";

interface PassageOptions {
  readonly provider: Provider;
  readonly egress: Egress | undefined;
  readonly consent: ConsentRules;
  readonly book: Pick<ProviderBook, "onWithdrawn">;
  /** The caller's. */
  readonly signal: AbortSignal;
}

/**
 * Leave for one request to go out to one provider. Its signal aborts when the caller gives up, when consent for
 * something that is in the request is taken back, when the provider or its credential is, and when the request is over.
 */
export class Passage implements Leave, Disposable {
  readonly provider: Provider;
  /** Everything that is in the request. */
  readonly classes: readonly DataClass[];
  /** Of them, those that leave only because they were allowed for this one request. */
  readonly once: readonly DataClass[];
  readonly #leaving = new AbortController();
  readonly #end: () => void;
  #ended: { readonly reason: unknown } | undefined;

  /** Throws `consent_required` where anything that is in the request may not leave; the signal's reason. */
  constructor({ provider, egress = promptOnly, consent, book, signal }: PassageOptions) {
    signal.throwIfAborted();
    this.provider = provider;
    // Whatever is sent has words in it.
    this.classes = [...new Set<DataClass>(["prompt", ...egress.classes])];
    const missing = consent.missing(this.classes);
    this.once = missing.filter((scope) => egress.allowedOnce.includes(scope));
    const refused = missing.filter((scope) => !egress.allowedOnce.includes(scope));
    if (refused.length > 0) throw notAllowed(refused, provider);
    const watched = this.classes.filter((scope) => !egress.allowedOnce.includes(scope));
    const unwatch = consent.onRevoked(watched, () =>
      this.#endWith(takenBack(consent.missing(watched), provider)),
    );
    const stay = book.onWithdrawn(provider.id, (error) => this.#endWith(error));
    const onAbort = () => this.#endWith(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    this.#end = () => {
      unwatch();
      stay();
      signal.removeEventListener("abort", onAbort);
    };
  }

  get signal(): AbortSignal {
    return this.#leaving.signal;
  }

  /** The request is over, or nobody wants more of it. */
  abort(): void {
    this.#leaving.abort(OVER);
  }

  /** What `error` comes from: the caller's giving up, what was taken back, or itself. */
  explained(error: unknown): unknown {
    return this.#ended ? this.#ended.reason : error;
  }

  [Symbol.dispose](): void {
    this.#end();
    this.abort();
  }

  #endWith(reason: unknown): void {
    this.#ended ??= { reason };
    this.#leaving.abort(reason);
  }
}

function notAllowed(scopes: readonly DataClass[], provider: Provider): AssistantError {
  return new AssistantError(
    "consent_required",
    `${listed(scopes)} may not leave this machine for ${provider.id}, and nothing was sent. ` +
      `To allow it: ${commands(scopes)}`,
  );
}

function takenBack(scopes: readonly DataClass[], provider: Provider): AssistantError {
  return new AssistantError(
    "consent_required",
    `consent for ${listed(scopes)} was taken back, so the request to ${provider.id} was ended. ` +
      `To allow it again: ${commands(scopes)}`,
  );
}

function listed(scopes: readonly DataClass[]): string {
  return scopes.join(", ");
}

function commands(scopes: readonly DataClass[]): string {
  return scopes.map((scope) => `\`berth remote consent ${scope} on\``).join(", ");
}
