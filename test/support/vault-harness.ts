import { join } from "node:path";
import Database from "better-sqlite3";
import { onTestFinished, vi } from "vitest";
import {
  EncryptedVault,
  type EncryptedVaultOptions,
} from "../../src/assistant/remote/vault/encrypted-vault.ts";
import type { CredentialOwner } from "../../src/assistant/remote/vault/port.ts";
import { systemClock } from "../../src/base/clock.ts";
import { createRecordingLogger, type LogEntry } from "./recording-logger.ts";
import { temporaryFolder } from "./temporary-folder.ts";
import { WAIT_OPTIONS } from "./wait-limits.ts";

export const openrouter: CredentialOwner = { id: "openrouter", origin: "https://openrouter.ai" };
export const mistral: CredentialOwner = { id: "mistral", origin: "https://api.mistral.ai" };

/** A vault in a real directory, with its log. */
export class VaultHarness {
  readonly dir: string;
  readonly logged: LogEntry[] = [];
  readonly #options: Partial<EncryptedVaultOptions>;
  #vault: EncryptedVault | undefined;

  constructor(options: Partial<EncryptedVaultOptions> = {}) {
    this.#options = options;
    this.dir = options.dir ?? temporaryFolder("vault");
    onTestFinished(() => this.#vault?.[Symbol.asyncDispose]());
  }

  get vault(): EncryptedVault {
    if (!this.#vault) throw new Error("start it first");
    return this.#vault;
  }

  /**
   * Opens the vault, and waits until the source of its key has answered. Disposes a vault that is open, as a daemon
   * that restarts does.
   */
  async start(changes: Partial<EncryptedVaultOptions> = {}): Promise<EncryptedVault> {
    const vault = await this.open(changes);
    await vi.waitFor(() => {
      const { message } = vault.protection();
      if (message?.includes(" yet;")) throw new Error(message);
    }, WAIT_OPTIONS);
    return vault;
  }

  /** Opens the vault as `start` does, without waiting. */
  async open(changes: Partial<EncryptedVaultOptions> = {}): Promise<EncryptedVault> {
    await this.#vault?.[Symbol.asyncDispose]();
    this.#vault = undefined;
    this.#vault = await EncryptedVault.open({
      dir: this.dir,
      environment: {},
      clock: systemClock,
      logger: createRecordingLogger(this.logged),
      ...this.#options,
      ...changes,
    });
    return this.#vault;
  }

  /** Runs `work` on the vault's database through a connection of its own, as another program could. */
  sql<T>(work: (db: Database.Database) => T): T {
    const db = new Database(join(this.dir, "vault.db"));
    try {
      return work(db);
    } finally {
      db.close();
    }
  }

  readSealed(providerId: string): Buffer {
    const sealed = this.sql((db) =>
      db
        .prepare<[string], Buffer>("SELECT sealed FROM credential WHERE provider = ?")
        .pluck()
        .get(providerId),
    );
    if (!sealed) throw new Error(`there is no credential of ${providerId}`);
    return sealed;
  }
}
