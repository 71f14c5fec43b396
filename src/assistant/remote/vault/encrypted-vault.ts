import { join } from "node:path";
import { type Clock, delay, timestamp } from "../../../base/clock.ts";
import type { Logger } from "../../../base/logger.ts";
import type { Environment } from "../../../base/process-environment.ts";
import { SealBrokenError } from "../../../base/sealing-key.ts";
import type { Durability } from "../../../base/sqlite.ts";
import type { SessionBus } from "../../../dbus/port.ts";
import { AssistantError } from "../../assistant-error.ts";
import { KeyFile } from "../../key-sources/key-file.ts";
import type { KeySource } from "../../key-sources/port.ts";
import { SecretService } from "../../key-sources/secret-service/secret-service.ts";
import { SystemdCredential } from "../../key-sources/systemd-credential.ts";
import type { CredentialState, Protection } from "../port.ts";
import { isBusy, toStorageError } from "../store/storage-error.ts";
import { checkCredential, parseCredential, serializeCredential } from "./credential-text.ts";
import { MasterKey } from "./master-key.ts";
import type { Credential, CredentialOwner, Vault } from "./port.ts";
import { type CredentialRow, VaultFile } from "./vault-file.ts";
import type { SealContext } from "./vault-key.ts";

export interface EncryptedVaultOptions {
  /**
   * The companion's data directory, an absolute path. The vault creates `vault.db` there, and `vault-key` if no better
   * source of the key is available.
   */
  readonly dir: string;
  /** The environment variables, of which `CREDENTIALS_DIRECTORY` is read. */
  readonly environment: Environment;
  /** The session bus, which may offer a keyring. */
  readonly sessionBus?: SessionBus | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly durability?: Durability;
}

/** The longest time that a call waits while another program locks the database. */
const BUSY_MS_MAX = 5_000;
const BUSY_RETRY_MS = 25;
const storeFile = { what: "the vault of credentials", file: "vault.db" };
const noCredential: CredentialState = {
  present: false,
  kind: null,
  set_at: null,
  expires_at: null,
};

/**
 * Stores credentials in `vault.db`, each encrypted with AES-256-GCM and bound to its provider and origin. The master
 * key is a systemd credential, an item in the desktop's keyring, or a file. The first of these sources that is
 * available when the first credential is stored is used from then on.
 *
 * The database is opened once; `describe` and `remove` need no key. Writes run one after the other.
 */
export class EncryptedVault implements Vault, AsyncDisposable {
  readonly #file: VaultFile;
  readonly #master: MasterKey;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #ending: AbortController;
  #lastWrite: Promise<unknown> = Promise.resolve();
  /** True if overwritten or deleted credentials may still be in the database file or in its write-ahead log. */
  #hasRemains = true;

  /**
   * Opens the vault. Rejects with `storage_failed` if the database cannot be used. The vault opens as locked, and the
   * key is looked for afterwards, because a keyring that does not answer must not delay the start of the daemon.
   */
  static async open(options: EncryptedVaultOptions): Promise<EncryptedVault> {
    const { logger } = options;
    let file: VaultFile | undefined;
    try {
      file = new VaultFile(options.dir, options.durability ?? "full");
      const vault = new EncryptedVault(file, options);
      vault.#master.probe().catch((err: unknown) => {
        if (!vault.#ending.signal.aborted)
          logger.warn({ err }, "the search for the key of the credentials failed; will retry");
      });
      // Removes the data that a daemon left behind if it exited between a change and the rewriting of the file.
      await vault.#eraseRemains().catch(() => undefined);
      return vault;
    } catch (error) {
      file?.close();
      throw toStorageError(error, storeFile);
    }
  }

  private constructor(file: VaultFile, options: EncryptedVaultOptions) {
    const { dir, environment, sessionBus, clock, logger } = options;
    this.#file = file;
    this.#clock = clock;
    this.#logger = logger;
    this.#ending = new AbortController();
    const { vaultId } = file;
    const sources: KeySource[] = [new SystemdCredential(environment)];
    if (sessionBus) sources.push(new SecretService(sessionBus, vaultId));
    sources.push(new KeyFile(join(dir, "vault-key")));
    this.#master = new MasterKey({
      vaultId,
      sources,
      record: () => file.masterRecord(),
      logger,
      signal: this.#ending.signal,
    });
  }

  put(owner: CredentialOwner, credential: Credential): Promise<void> {
    return this.#write(async () => {
      checkCredential(credential);
      const { key, record } = await this.#master.getOrCreate();
      const context: SealContext = {
        providerId: owner.id,
        origin: owner.origin,
        kind: credential.kind,
        setAtMs: this.#clock.now(),
        expiresAtMs: (credential.kind === "oauth" ? credential.expiresAtMs : undefined) ?? null,
      };
      const { providerId: provider, ...rest } = context;
      const sealed = key.seal(serializeCredential(credential), context);
      await this.#retryWhileBusy(() => this.#file.put({ provider, ...rest, sealed }, record));
      this.#hasRemains = true;
      // The new credential is stored. Erasing the old one from the files may be retried later.
      await this.#eraseRemains().catch((error: unknown) => {
        const failure = toStorageError(error, storeFile);
        this.#logger.warn(
          { reason: failure.message, err: failure.cause },
          "remains of an overwritten credential could not be removed from the vault's files; will retry",
        );
      });
    });
  }

  async get(owner: CredentialOwner): Promise<Credential | undefined> {
    try {
      const row = await this.#retryWhileBusy(() => this.#file.get(owner.id));
      if (row?.origin !== owner.origin) return undefined;
      const { key } = await this.#master.get();
      return parseCredential(row.kind, key.open(row.sealed, getSealContext(row)));
    } catch (error) {
      throw this.#toError(error, owner.id);
    }
  }

  remove(providerId: string): Promise<boolean> {
    return this.#write(async () => {
      const isRemoved = await this.#retryWhileBusy(() => this.#file.remove(providerId));
      this.#hasRemains ||= isRemoved;
      // No master key is needed to remove a credential. A user who has lost the master key, or wants another source for
      // it, starts over by clearing all credentials.
      if (!this.#file.masterRecord()) this.#master.forget();
      await this.#eraseRemains().catch((error: unknown) => {
        throw notErasedError(error);
      });
      await this.#master.probe();
      return isRemoved;
    });
  }

  describe(providerId: string): CredentialState {
    let row: CredentialRow | undefined;
    try {
      row = this.#file.get(providerId);
    } catch (error) {
      throw this.#toError(error, providerId);
    }
    if (!row) return noCredential;
    return {
      present: true,
      kind: row.kind,
      set_at: timestamp(row.setAtMs),
      expires_at: row.expiresAtMs === null ? null : timestamp(row.expiresAtMs),
    };
  }

  protection(): Protection {
    return this.#master.protection;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#ending.signal.aborted) return;
    this.#ending.abort(shuttingDownError());
    await this.#lastWrite;
    // The vault tries once more to erase old data. If this fails, the next opening of the vault tries again.
    await this.#eraseRemains().catch(() => undefined);
    this.#file.close();
  }

  async #write<T>(work: () => Promise<T>): Promise<T> {
    if (this.#ending.signal.aborted) throw shuttingDownError();
    const done = this.#lastWrite.then(work);
    this.#lastWrite = done.catch(() => undefined);
    try {
      return await done;
    } catch (error) {
      throw this.#toError(error, undefined);
    }
  }

  async #eraseRemains(): Promise<void> {
    if (!this.#hasRemains) return;
    await this.#retryWhileBusy(() => this.#file.rewrite());
    this.#hasRemains = false;
  }

  /** Repeats `work`, which must be safe to repeat, until no other program locks the database. */
  async #retryWhileBusy<T>(work: () => T): Promise<T> {
    for (const deadline = this.#clock.now() + BUSY_MS_MAX; ; ) {
      try {
        return work();
      } catch (error) {
        if (!isBusy(error) || this.#clock.now() >= deadline) throw error;
        await delay(this.#clock, BUSY_RETRY_MS, this.#ending.signal);
      }
    }
  }

  #toError(error: unknown, providerId: string | undefined): AssistantError {
    if (this.#ending.signal.aborted) return shuttingDownError();
    if (error instanceof SealBrokenError) {
      this.#logger.error({ provider: providerId }, "a stored credential is damaged");
      return new AssistantError(
        "storage_failed",
        `the stored credential of ${providerId} is damaged; set its key again, or sign in again`,
      );
    }
    const failure = toStorageError(error, storeFile);
    if (failure !== error)
      this.#logger.error(
        { reason: failure.message, err: failure.cause },
        "the vault cannot be used",
      );
    return failure;
  }
}

function getSealContext({
  provider,
  origin,
  kind,
  setAtMs,
  expiresAtMs,
}: CredentialRow): SealContext {
  return { providerId: provider, origin, kind, setAtMs, expiresAtMs };
}

/** Returns the error for a credential that is deleted from the database but may still be in one of the files. */
function notErasedError(error: unknown): unknown {
  if (!isBusy(error)) return error;
  return new AssistantError(
    "storage_failed",
    "the credential is removed, but another program reads the vault's database, so its encrypted form is still in a file; stop that program, then clear the credential again",
    { cause: error },
  );
}

function shuttingDownError(): AssistantError {
  return new AssistantError("shutting_down", "the assistant is shutting down; nothing was changed");
}
