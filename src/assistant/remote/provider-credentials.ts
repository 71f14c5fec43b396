import type { Clock } from "../../base/clock.ts";
import { Mutex } from "../../base/mutex.ts";
import { raceWithAbort } from "../../base/race-with-abort.ts";
import { createTimeLimit } from "../../base/time-limit.ts";
import { AssistantError } from "../assistant-error.ts";
import type { Ledger } from "../ledger/port.ts";
import { findBuiltInId } from "./built-in-providers.ts";
import type { BuiltInProvider, Provider } from "./port.ts";
import type { SignIns } from "./sign-in/port.ts";
import type { Credential, OAuthSession, Vault } from "./vault/port.ts";

/** The remaining lifetime below which a session is renewed before it is used. */
const RENEW_MS = 60_000;
const RENEWAL_MS_MAX = 30_000;
const KEY_CHARACTERS_MAX = 16 * 1024;

interface ClearedCredential {
  readonly wasThere: boolean;
  readonly session: OAuthSession | undefined;
}

interface ProviderCredentialsOptions {
  readonly vault: Vault;
  readonly ledger: Ledger;
  readonly clock: Clock;
  readonly renewer: Pick<SignIns, "refresh" | "revoke">;
}

/**
 * Changes and reads the credentials. Each change is recorded in the ledger and then stored in the vault; changes run
 * one after the other.
 */
export class ProviderCredentials implements AsyncDisposable {
  readonly #options: ProviderCredentialsOptions;
  readonly #changes = new Mutex();
  readonly #renewing = new Map<string, Promise<Credential | undefined>>();
  readonly #closing = new AbortController();

  constructor(options: ProviderCredentialsOptions) {
    this.#options = options;
  }

  /** Stores a key. Throws `invalid_request` for text that no HTTP header can contain. */
  async setKey(provider: Provider, text: string): Promise<void> {
    const key = text.trim();
    if (key === "")
      throw new AssistantError("invalid_request", "the key is empty", { param: "key" });
    if (key.length > KEY_CHARACTERS_MAX)
      throw new AssistantError(
        "invalid_request",
        `the key is longer than ${KEY_CHARACTERS_MAX} characters`,
        { param: "key" },
      );
    if (!/^[\x21-\x7e]+$/.test(key))
      throw new AssistantError(
        "invalid_request",
        "the key contains spaces, line breaks or characters outside ASCII, which no key has",
        { param: "key" },
      );
    await this.keep(provider, { kind: "key", key });
  }

  keep(provider: Provider, credential: Credential): Promise<void> {
    return this.#changes.runExclusive(() => this.#put(provider, credential));
  }

  /**
   * Removes the provider's credential. The result says if there was a credential. If the credential was a session, the
   * result contains the session.
   */
  clear(provider: Provider): Promise<ClearedCredential> {
    const { id } = provider;
    return this.#changes.runExclusive(async () => {
      const { kind, present } = this.#options.vault.describe(id);
      await this.#options.ledger.append({ name: "remote.key.clear", fields: { provider: id } });
      // The caller needs the session only to revoke it at the provider. If the session cannot be decrypted, it is
      // removed without being revoked.
      const former =
        kind === "oauth"
          ? await this.#options.vault.get(getCredentialOwner(provider)).catch(() => undefined)
          : undefined;
      await this.#options.vault.remove(id);
      return { wasThere: present, session: former?.kind === "oauth" ? former : undefined };
    });
  }

  /**
   * Resolves to the token for the Authorization header; undefined if there is no credential. Renews a session that is
   * about to expire.
   */
  async bearer(provider: Provider, signal: AbortSignal): Promise<string | undefined> {
    const credential = await this.#options.vault.get(getCredentialOwner(provider));
    if (credential?.kind !== "oauth") return getBearerToken(credential);
    const builtIn = findBuiltInId(provider.id);
    const leftMs = (credential.expiresAtMs ?? Number.POSITIVE_INFINITY) - this.#options.clock.now();
    // A session that cannot be renewed is used until it expires.
    const isGood = leftMs > (credential.refreshToken === undefined ? 0 : RENEW_MS);
    if (builtIn === undefined || isGood) return getBearerToken(credential);
    return getBearerToken(
      await raceWithAbort(this.#renewOnce(provider, builtIn, credential), signal),
    );
  }

  /** Aborts the renewals of sessions, and waits until all changes of credentials that have begun are complete. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new AssistantError("shutting_down", "the assistant is shutting down"));
    await this.#changes.waitUntilIdle();
  }

  /**
   * Renews a session. All concurrent callers share one renewal, which continues even if they abort: at many providers,
   * using a refresh token twice ends the session.
   */
  #renewOnce(
    provider: Provider,
    builtIn: BuiltInProvider,
    session: OAuthSession,
  ): Promise<Credential | undefined> {
    const running = this.#renewing.get(provider.id);
    if (running) return running;
    const renewing = this.#renew(provider, builtIn, session).finally(() =>
      this.#renewing.delete(provider.id),
    );
    this.#renewing.set(provider.id, renewing);
    return renewing;
  }

  /**
   * Renews a session. Resolves to the credential that is stored afterwards, because the user may have signed out
   * meanwhile, or signed in with another account.
   */
  async #renew(
    provider: Provider,
    builtIn: BuiltInProvider,
    session: OAuthSession,
  ): Promise<Credential | undefined> {
    const fields = { provider: provider.id, step: "renew" };
    await this.#options.ledger.append({ name: "remote.login", fields });
    using limit = createTimeLimit(this.#closing.signal, RENEWAL_MS_MAX);
    const renewed = await this.#options.renewer.refresh(builtIn, session, limit.signal);
    const now = await this.#changes.runExclusive(async () => {
      const found = await this.#options.vault.get(getCredentialOwner(provider));
      if (found?.kind !== "oauth" || found.accessToken !== session.accessToken) return found;
      await this.#put(provider, renewed);
      return renewed;
    });
    if (now !== renewed) await this.#options.renewer.revoke(builtIn, renewed);
    return now;
  }

  async #put(provider: Provider, credential: Credential): Promise<void> {
    const fields = {
      provider: provider.id,
      origin: getOrigin(provider),
      kind: credential.kind,
    };
    await this.#options.ledger.append({ name: "remote.key.set", fields });
    await this.#options.vault.put(getCredentialOwner(provider), credential);
  }
}

function getBearerToken(credential: Credential | undefined): string | undefined {
  return credential?.kind === "oauth" ? credential.accessToken : credential?.key;
}

function getCredentialOwner(provider: Provider) {
  return { id: provider.id, origin: getOrigin(provider) };
}

function getOrigin({ baseUrl }: Provider): string {
  return new URL(baseUrl).origin;
}
