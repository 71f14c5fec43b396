import { AssistantError } from "../../assistant-error.ts";
import { type DataClass, type Egress, promptOnly } from "../../data-class.ts";
import type { Provider } from "../port.ts";
import type { EgressAuthorization } from "./egress-request.ts";
import { ENDED } from "./linked-abort.ts";
import type { ConsentRules, ProviderDirectory } from "./port.ts";

interface EgressPermitOptions {
  readonly provider: Provider;
  readonly egress: Egress | undefined;
  readonly consent: ConsentRules;
  readonly providers: Pick<ProviderDirectory, "onRevoked">;
  /** The caller's. */
  readonly signal: AbortSignal;
}

/**
 * Leave for one request to go out to one provider. Its signal aborts when the caller gives up, when consent for
 * something that is in the request is taken back, when the provider or its credential is, and when the request is over.
 */
export class EgressPermit implements EgressAuthorization, Disposable {
  readonly provider: Provider;
  /** Everything that is in the request. */
  readonly classes: readonly DataClass[];
  /** Of them, those that leave only because they were allowed for this one request. */
  readonly once: readonly DataClass[];
  readonly #controller = new AbortController();
  readonly #unsubscribe: () => void;
  #abortReason: { readonly reason: unknown } | undefined;

  /** Throws `consent_required` where anything that is in the request may not leave; the signal's reason. */
  constructor({
    provider,
    egress = promptOnly,
    consent,
    providers: book,
    signal,
  }: EgressPermitOptions) {
    signal.throwIfAborted();
    this.provider = provider;
    // Whatever is sent has words in it.
    this.classes = [...new Set<DataClass>(["prompt", ...egress.classes])];
    const missing = consent.missing(this.classes);
    this.once = missing.filter((scope) => egress.allowedOnce.includes(scope));
    const refused = missing.filter((scope) => !egress.allowedOnce.includes(scope));
    if (refused.length > 0) throw consentRequiredError(refused, provider);
    const watched = this.classes.filter((scope) => !egress.allowedOnce.includes(scope));
    const unwatch = consent.onRevoked(watched, () =>
      this.#abortWith(consentRevokedError(consent.missing(watched), provider)),
    );
    const stay = book.onRevoked(provider.id, (error) => this.#abortWith(error));
    const onAbort = () => this.#abortWith(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    this.#unsubscribe = () => {
      unwatch();
      stay();
      signal.removeEventListener("abort", onAbort);
    };
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** The request is over, or nobody wants more of it. */
  abort(): void {
    this.#controller.abort(ENDED);
  }

  /** What `error` comes from: the caller's giving up, what was taken back, or itself. */
  resolveError(error: unknown): unknown {
    return this.#abortReason ? this.#abortReason.reason : error;
  }

  [Symbol.dispose](): void {
    this.#unsubscribe();
    this.abort();
  }

  #abortWith(reason: unknown): void {
    this.#abortReason ??= { reason };
    this.#controller.abort(reason);
  }
}

function consentRequiredError(scopes: readonly DataClass[], provider: Provider): AssistantError {
  return new AssistantError(
    "consent_required",
    `${formatScopes(scopes)} may not leave this machine for ${provider.id}, and nothing was sent. ` +
      `To allow it: ${formatCommands(scopes)}`,
  );
}

function consentRevokedError(scopes: readonly DataClass[], provider: Provider): AssistantError {
  return new AssistantError(
    "consent_required",
    `consent for ${formatScopes(scopes)} was taken back, so the request to ${provider.id} was ended. ` +
      `To allow it again: ${formatCommands(scopes)}`,
  );
}

function formatScopes(scopes: readonly DataClass[]): string {
  return scopes.join(", ");
}

function formatCommands(scopes: readonly DataClass[]): string {
  return scopes.map((scope) => `\`berth remote consent ${scope} on\``).join(", ");
}
