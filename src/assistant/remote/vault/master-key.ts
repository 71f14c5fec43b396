import { randomBytes } from "node:crypto";
import type { Logger } from "../../../base/logger.ts";
import { SECRET_BYTES } from "../../../base/sealing-key.ts";
import { AssistantError } from "../../assistant-error.ts";
import { type FoundKey, KeyNotStoredError, type KeySource } from "../../key-sources/port.ts";
import type { Protection } from "../port.ts";
import type { MasterRecord } from "./vault-file.ts";
import { VaultKey } from "./vault-key.ts";

export interface MasterKeyOptions {
  readonly vaultId: string;
  /** The places that can store the master key, in order of preference. At least one of them is never `absent`. */
  readonly sources: readonly KeySource[];
  /** Reads the record of the master key from the database. Throws the errors of SQLite. */
  readonly record: () => MasterRecord | undefined;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/** The vault's key, and the record of its source. */
export interface HeldKey {
  readonly key: VaultKey;
  readonly record: MasterRecord;
}

/**
 * Finds the master key of a vault. It has these states:
 *
 * - unrecorded: nothing is encrypted yet. The first source that is not absent is used, and a key is created there if
 *   necessary.
 * - recorded: only the source in the record is read, and only a key that matches the check value is accepted.
 * - held: the key stays in memory until the daemon exits, even if its source is locked later.
 *
 * Removing the last credential removes the record.
 *
 * If the recorded key is not available, the vault is `locked`: another key could decrypt nothing, and using one would
 * hide the problem.
 */
export class MasterKey {
  readonly #options: MasterKeyOptions;
  #held: HeldKey | undefined;
  #protection: Protection;
  #probing: Promise<void> | undefined;
  #hasProbed = false;

  constructor(options: MasterKeyOptions) {
    this.#options = options;
    const [first] = options.sources;
    const source = options.record()?.source ?? first?.name ?? "file";
    this.#protection = { source, state: "locked", message: waitingMessages[source] };
  }

  get protection(): Protection {
    return this.#protection;
  }

  /** Called when no encrypted data is left, so that the next key may come from another source. */
  forget(): void {
    this.#held = undefined;
  }

  /** Reads the source of the master key without creating a key, and updates `protection`. */
  async probe(): Promise<void> {
    if (this.#held) return;
    this.#probing ??= this.#probeSources(false).finally(() => (this.#probing = undefined));
    await this.#probing;
  }

  /** Resolves to the key. Rejects with `storage_failed` while the key is not available. */
  async get(): Promise<HeldKey> {
    await this.probe();
    return this.#held ?? this.#refuse();
  }

  /** Resolves to the key; creates a key if nothing is encrypted yet. Must not run twice at the same time. */
  async getOrCreate(): Promise<HeldKey> {
    await this.probe();
    if (!this.#held && !this.#options.record()) await this.#probeSources(true);
    return this.#held ?? this.#refuse();
  }

  async #probeSources(mayMake: boolean): Promise<void> {
    const { sources, signal } = this.#options;
    const record = this.#options.record();
    const candidates = record ? sources.filter(({ name }) => name === record.source) : sources;
    for (const source of candidates) {
      if (!this.#hasProbed)
        this.#protection = {
          source: source.name,
          state: "locked",
          message: waitingMessages[source.name],
        };
      let found = await source.probe(signal);
      if (found.state === "absent") continue;
      if (found.state === "empty" && !record && mayMake) found = await this.#createKey(source);
      this.#hasProbed = true;
      // If a concurrent call has set the key meanwhile, that key stays in use.
      if (this.#held) return;
      this.#applyFound(source, found, record);
      return;
    }
    this.#hasProbed = true;
    const source = record?.source ?? "file";
    this.#lock(source, record ? missingMessages[record.source] : "no source can store a key");
  }

  /** Creates a master key in the given source. Resolves to the key, or to the reason why it could not be created. */
  async #createKey(source: KeySource): Promise<FoundKey> {
    const key = randomBytes(SECRET_BYTES);
    try {
      if (!source.store) return { state: "empty" };
      await source.store(key, this.#options.signal);
      // The key is read back, because a key that cannot be read later must not encrypt anything.
      return await source.probe(this.#options.signal);
    } catch (error) {
      if (!(error instanceof KeyNotStoredError)) throw error;
      return { state: "locked", why: error.message };
    } finally {
      key.fill(0);
    }
  }

  #applyFound(source: KeySource, found: FoundKey, record: MasterRecord | undefined): void {
    switch (found.state) {
      case "locked":
        this.#lock(source.name, found.why);
        return;
      case "key":
        this.#hold(source, found.key, record);
        return;
      default:
        if (record) this.#lock(source.name, missingMessages[source.name]);
        else this.#protection = { source: source.name, state: "ready", message: null };
    }
  }

  #hold(source: KeySource, master: Buffer, record: MasterRecord | undefined): void {
    const key = new VaultKey(master, this.#options.vaultId);
    master.fill(0);
    if (record && !key.hasCheckValue(record.checkValue)) {
      this.#lock(source.name, wrongMessages[source.name]);
      return;
    }
    this.#held = { key, record: { source: source.name, checkValue: key.checkValue } };
    this.#protection = { source: source.name, state: "ready", message: null };
    this.#options.logger.info({ source: source.name }, "the key of the credentials is available");
  }

  #lock(source: Protection["source"], message: string): void {
    const isChanged = this.#protection.message !== message;
    this.#protection = { source, state: "locked", message };
    if (isChanged)
      this.#options.logger.warn(
        { source, reason: message },
        "credentials of remote providers are locked; the next use of a credential tries to unlock them",
      );
  }

  #refuse(): never {
    throw new AssistantError(
      "storage_failed",
      `credentials are locked: ${this.#protection.message ?? "their key is not available"}`,
    );
  }
}

const orStartOver = "or clear the keys of all providers, so that a new key can be created";

/** The messages for a source of the master key that is being read for the first time since the start. */
const waitingMessages: Readonly<Record<Protection["source"], string>> = {
  "systemd-credential":
    "the systemd credential berth.vault-key has not been read yet; try again in a moment",
  "secret-service": "the keyring has not answered yet; try again in a moment",
  file: "the file vault-key has not been read yet; try again in a moment",
};

/** The messages for a source of the master key that is no longer available or no longer contains the key. */
const missingMessages: Readonly<Record<Protection["source"], string>> = {
  "systemd-credential": `the systemd credential berth.vault-key, with which the providers' credentials are encrypted, is missing; start the assistant with it again, ${orStartOver}`,
  "secret-service": `the keyring with the key of the credentials is not available, or no longer has the key; log in to the desktop, or start the keyring, ${orStartOver}`,
  file: `the file vault-key, with which the providers' credentials are encrypted, is missing in the assistant's data directory; restore it from a backup, ${orStartOver}`,
};

/**
 * The messages for a source of the master key that contains another key than the one which encrypted the credentials.
 */
const wrongMessages: Readonly<Record<Protection["source"], string>> = {
  "systemd-credential": `the systemd credential berth.vault-key is not the key with which the providers' credentials are encrypted; restore the original systemd credential, ${orStartOver}`,
  "secret-service": `the key in the keyring is not the key with which the providers' credentials are encrypted; restore the keyring from a backup, ${orStartOver}`,
  file: `the file vault-key is not the key with which the providers' credentials are encrypted; restore the original file from a backup, ${orStartOver}`,
};
