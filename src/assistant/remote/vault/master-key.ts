import { randomBytes } from "node:crypto";
import type { Logger } from "../../../base/logger.ts";
import { AssistantError } from "../../assistant-error.ts";
import type { Protection } from "../port.ts";
import { type FoundKey, KeyNotStoredError, type KeySource } from "./key-source.ts";
import type { MasterRecord } from "./vault-file.ts";
import { MASTER_KEY_BYTES, VaultKey } from "./vault-key.ts";

export interface MasterKeyOptions {
  readonly vaultId: string;
  /** The one that is preferred first; one at least is never `absent`. */
  readonly sources: readonly KeySource[];
  /** What is written beside the data now; throws what SQLite says. */
  readonly record: () => MasterRecord | undefined;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/** The key of the vault, and with what `record` has to say it was sealed. */
export interface HeldKey {
  readonly key: VaultKey;
  readonly record: MasterRecord;
}

/**
 * Where the key of a vault comes from, and whether it does.
 *
 *   unrecorded   nothing is sealed: the first source that is not absent is used, and a key made there
 *   recorded     only the source of the record is asked, and only for the key that the check value fits
 *   held         kept in memory until the daemon ends, also when its source is locked later
 *
 * With the last credential the record goes too.
 *
 * What is recorded and does not come is `locked`: another key would open nothing, and would hide that.
 */
export class MasterKey {
  readonly #options: MasterKeyOptions;
  #held: HeldKey | undefined;
  #protection: Protection;
  #probing: Promise<void> | undefined;

  constructor(options: MasterKeyOptions) {
    this.#options = options;
    const [first] = options.sources;
    const source = options.record()?.source ?? first?.name ?? "file";
    this.#protection = { source, state: "locked", message: "the vault has not been opened yet" };
  }

  get protection(): Protection {
    return this.#protection;
  }

  /** When nothing is sealed any more: the next one may come from elsewhere. */
  forget(): void {
    this.#held = undefined;
  }

  /** Asks the source, and makes nothing. Afterwards `protection` is as things are. */
  async probe(): Promise<void> {
    if (this.#held) return;
    this.#probing ??= this.#probeSources(false).finally(() => (this.#probing = undefined));
    await this.#probing;
  }

  /** Rejects with `storage_failed` while the key is locked. */
  async get(): Promise<HeldKey> {
    await this.probe();
    return this.#held ?? this.#refuse();
  }

  /** As `held`; where nothing is sealed yet, a key is made. Only one call at a time. */
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
      let found = await source.probe(signal);
      if (found.state === "absent") continue;
      if (found.state === "empty" && !record && mayMake) found = await this.#createKey(source);
      // By another call, at the same time.
      if (this.#held) return;
      this.#applyFound(source, found, record);
      return;
    }
    const source = record?.source ?? "file";
    this.#lock(source, record ? missingMessages[record.source] : "there is no place for a key");
  }

  /** What is there after a key was made: what was made, or why not. */
  async #createKey(source: KeySource): Promise<FoundKey> {
    const key = randomBytes(MASTER_KEY_BYTES);
    try {
      if (!source.store) return { state: "empty" };
      await source.store(key, this.#options.signal);
      // Read anew, since what cannot be read later must not seal anything.
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
    this.#options.logger.info({ source: source.name }, "the key of the credentials is there");
  }

  #lock(source: Protection["source"], message: string): void {
    const isChanged = this.#protection.message !== message;
    this.#protection = { source, state: "locked", message };
    if (isChanged)
      this.#options.logger.warn(
        { source, reason: message },
        "credentials of remote providers are locked; will retry when one is needed",
      );
  }

  #refuse(): never {
    throw new AssistantError(
      "storage_failed",
      `credentials are locked: ${this.#protection.message ?? "their key is not there"}`,
    );
  }
}

const orStartOver = "or clear the keys of all providers, which makes room for a new key";

/** The source is not there any more, or has no key any more. */
const missingMessages: Readonly<Record<Protection["source"], string>> = {
  "systemd-credential": `the systemd credential berth.vault-key that the credentials are encrypted with is not there; start the assistant with it again, ${orStartOver}`,
  "secret-service": `the keyring that has the key of the credentials is not there, or has it no more; log in to the desktop, or start the keyring, ${orStartOver}`,
  file: `the file vault-key that the credentials are encrypted with is missing in the assistant's data directory; bring it back from a backup, ${orStartOver}`,
};

/** There is a key, and it is another one. */
const wrongMessages: Readonly<Record<Protection["source"], string>> = {
  "systemd-credential": `the systemd credential berth.vault-key is not the one that the credentials are encrypted with; bring that one back, ${orStartOver}`,
  "secret-service": `the keyring's key is not the one that the credentials are encrypted with; bring the keyring back from a backup, ${orStartOver}`,
  file: `the file vault-key is not the one that the credentials are encrypted with; bring that one back from a backup, ${orStartOver}`,
};
