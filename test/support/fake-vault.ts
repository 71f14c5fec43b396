import type { CredentialState, Protection } from "../../src/assistant/remote/port.ts";
import type { Credential, CredentialOwner, Vault } from "../../src/assistant/remote/vault/port.ts";

/** A vault in memory that binds credentials to origins, like the real one. */
export class FakeVault implements Vault {
  readonly kept = new Map<string, { readonly origin: string; readonly credential: Credential }>();
  /** The error with which every write and read fails. */
  failure: Error | undefined;
  readonly #now: () => number;

  constructor(now: () => number = () => 0) {
    this.#now = now;
  }

  async put({ id, origin }: CredentialOwner, credential: Credential): Promise<void> {
    if (this.failure) throw this.failure;
    this.kept.set(id, { origin, credential });
  }

  async get({ id, origin }: CredentialOwner): Promise<Credential | undefined> {
    if (this.failure) throw this.failure;
    const found = this.kept.get(id);
    return found?.origin === origin ? found.credential : undefined;
  }

  async remove(id: string): Promise<boolean> {
    if (this.failure) throw this.failure;
    return this.kept.delete(id);
  }

  describe(id: string): CredentialState {
    const found = this.kept.get(id)?.credential;
    if (!found) return { present: false, kind: null, set_at: null, expires_at: null };
    const ends = found.kind === "oauth" ? found.expiresAtMs : undefined;
    return {
      present: true,
      kind: found.kind,
      set_at: new Date(this.#now()).toISOString(),
      expires_at: ends === undefined ? null : new Date(ends).toISOString(),
    };
  }

  protection(): Protection {
    return { source: "file", state: "ready", message: null };
  }
}
