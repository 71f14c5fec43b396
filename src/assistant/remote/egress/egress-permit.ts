import { AssistantError } from "../../assistant-error.ts";
import { type DataClass, type Egress, promptOnly } from "../../data-class.ts";
import type { Asker } from "../../inference/service-port.ts";
import type { Provider } from "../port.ts";
import type { EgressAuthorization } from "./egress-request.ts";
import { ENDED } from "./linked-abort.ts";
import type { ConsentRules, ProviderDirectory } from "./port.ts";

interface EgressPermitOptions {
  readonly provider: Provider;
  readonly egress: Egress | undefined;
  readonly asker: Asker | undefined;
  readonly consent: ConsentRules;
  readonly providers: Pick<ProviderDirectory, "onRevoked">;
  /** The signal with which the caller aborts the request. */
  readonly signal: AbortSignal;
}

/**
 * The permission for one request to one provider. Its signal aborts when the caller aborts, when the user revokes
 * consent for data in the request, when the provider or its credential is removed, and when the request has ended.
 */
export class EgressPermit implements EgressAuthorization, Disposable {
  readonly provider: Provider;
  /** Every data class that the request contains. */
  readonly classes: readonly DataClass[];
  /** The data classes in `classes` that the user allows for this request only. */
  readonly once: readonly DataClass[];
  readonly asker: Asker | undefined;
  readonly #controller = new AbortController();
  readonly #unsubscribe: () => void;
  #abortReason: { readonly reason: unknown } | undefined;

  /**
   * Throws `consent_required` if the request contains data that may not leave the machine, and the signal's reason if
   * the caller has aborted already.
   */
  constructor(options: EgressPermitOptions) {
    const { provider, egress = promptOnly, asker, consent, providers, signal } = options;
    signal.throwIfAborted();
    this.provider = provider;
    this.asker = asker;
    // Every request needs consent for the data class `prompt`, because every request contains text that a person or a
    // program wrote.
    this.classes = [...new Set<DataClass>(["prompt", ...egress.classes])];
    const missing = egress.isOnceOnly === true ? this.classes : consent.missing(this.classes);
    this.once = missing.filter((scope) => egress.allowedOnce.includes(scope));
    const refused = missing.filter((scope) => !egress.allowedOnce.includes(scope));
    if (refused.length > 0)
      throw egress.isOnceOnly === true
        ? confirmationRequiredError(refused, provider)
        : consentRequiredError(refused, provider);
    const watched = this.classes.filter((scope) => !egress.allowedOnce.includes(scope));
    const unwatch = consent.onRevoked(watched, () =>
      this.#abortWith(consentRevokedError(consent.missing(watched), provider)),
    );
    const removeCallback = providers.onRevoked(provider.id, (error) => this.#abortWith(error));
    const onAbort = () => this.#abortWith(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    this.#unsubscribe = () => {
      unwatch();
      removeCallback();
      signal.removeEventListener("abort", onAbort);
    };
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Aborts `signal` when the answer is complete or the caller stops reading it, so that no connection stays open. */
  abort(): void {
    this.#controller.abort(ENDED);
  }

  /** Returns the reason why the request failed: the caller's abort, the revocation, or otherwise `error` itself. */
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

function confirmationRequiredError(
  scopes: readonly DataClass[],
  provider: Provider,
): AssistantError {
  return new AssistantError(
    "consent_required",
    `${formatScopes(scopes)} may not leave this machine for ${provider.id}, and nothing was sent: ` +
      "for an app whose sandbox has no network, the user must allow each request",
  );
}

function consentRevokedError(scopes: readonly DataClass[], provider: Provider): AssistantError {
  return new AssistantError(
    "consent_required",
    `consent for ${formatScopes(scopes)} was revoked, so the request to ${provider.id} was ended. ` +
      `To allow it again: ${formatCommands(scopes)}`,
  );
}

function formatScopes(scopes: readonly DataClass[]): string {
  return scopes.join(", ");
}

function formatCommands(scopes: readonly DataClass[]): string {
  return scopes.map((scope) => `\`berth remote consent ${scope} on\``).join(", ");
}
