import { type Clock, delay } from "../../base/clock.ts";
import { getErrorMessage } from "../../base/errors.ts";
import type { Logger } from "../../base/logger.ts";
import { SealBrokenError } from "../../base/sealing-key.ts";
import type { KeySource } from "../key-sources/port.ts";
import { createTextKeyPair, openPrivateKey, type TextKeyPair } from "./text-cipher.ts";
import { createMasterKey, type FoundMasterKey, findMasterKey } from "./text-master-key.ts";
import type { TextKeys } from "./text-store.ts";

/** The part of an open ledger that stores the keys of its texts. Its methods reject as `append` does. */
export interface TextKeyStore {
  readTextKeys(): Promise<TextKeys & { readonly ledgerId: string }>;
  /**
   * Stores the key pair with which new texts are encrypted. Resolves to false and changes nothing if a stored text
   * needs the present key pair.
   */
  saveTextKeys(pair: TextKeyPair): Promise<boolean>;
  /**
   * Encrypts all texts that are not encrypted yet, in many commits, and resolves to their number. Rejects with the
   * signal's reason between two commits.
   */
  encryptTexts(signal: AbortSignal): Promise<number>;
}

export interface TextProtectionOptions {
  readonly ledger: TextKeyStore;
  /** Returns the places that can store the master key, in order of preference. */
  readonly sources: (ledgerId: string) => readonly KeySource[];
  readonly clock: Clock;
  readonly logger: Logger;
}

/** The time between two attempts to get a key for a ledger that has none, and to use a ledger that is unavailable. */
const RETRY_MS = 60_000;

/**
 * Thrown if the encrypted texts cannot be decrypted any more, because their key is lost. The error ends when the user
 * restores the key, or when no encrypted text is left.
 */
export class LostKeyError extends Error {
  constructor() {
    super(
      "the key of the ledger's texts is lost: restore it from a backup, or erase the texts while the assistant is stopped (berth ledger erase)",
    );
    this.name = "LostKeyError";
  }
}

/**
 * Encrypts the texts of a ledger in the background. New texts of a ledger with a key pair are always encrypted, because
 * that needs the public key only. This class creates the key pair, encrypts the texts that are older than the key pair,
 * and warns if the master key is lost. An interruption at any point is harmless: the next attempt continues.
 */
export class TextProtection implements AsyncDisposable {
  readonly #options: TextProtectionOptions;
  readonly #ending = new AbortController();
  #running: Promise<void> = Promise.resolve();

  constructor(options: TextProtectionOptions) {
    this.#options = options;
  }

  start(): void {
    this.#running = this.#run().catch(() => undefined);
  }

  /**
   * Resolves when all texts are encrypted. Rejects if the ledger or the key is not available, and with LostKeyError if
   * the key is lost. After such a loss, texts that are not encrypted yet stay readable, because no one could decrypt
   * them again.
   */
  async protect(): Promise<void> {
    const { ledger, sources, logger } = this.#options;
    const { pair, hasEncrypted, ledgerId } = await ledger.readTextKeys();
    const found = await findMasterKey(sources(ledgerId), pair?.source, this.#ending.signal);
    if (!pair || isLost(pair, found, ledgerId)) {
      if (hasEncrypted) throw new LostKeyError();
      if (found.state === "unavailable") throw new Error(found.why);
      const { name } = found.source;
      const master =
        found.state === "key"
          ? found.key
          : await createMasterKey(found.source, this.#ending.signal);
      const created = createTextKeyPair(name, master, ledgerId);
      if (!(await ledger.saveTextKeys(created))) throw new Error("a text was written meanwhile");
      logger.info({ source: name }, "the texts of the ledger are encrypted from now on");
    }
    const texts = await ledger.encryptTexts(this.#ending.signal);
    if (texts > 0) logger.info({ texts }, "older texts of the ledger were encrypted");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { clock, logger } = this.#options;
    for (let lastReason = ""; !this.#ending.signal.aborted; ) {
      try {
        return await this.protect();
      } catch (error) {
        const reason = getErrorMessage(error);
        if (reason !== lastReason && !this.#ending.signal.aborted) {
          if (error instanceof LostKeyError)
            logger.error({ reason }, "the texts of the ledger cannot be decrypted");
          else logger.warn({ reason }, "the texts of the ledger are not encrypted yet; will retry");
        }
        lastReason = reason;
        await delay(clock, RETRY_MS, this.#ending.signal);
      }
    }
  }
}

/** Returns true if the source of the master key contains no key, or another key than the one that encrypted `pair`. */
function isLost(pair: TextKeyPair, found: FoundMasterKey, ledgerId: string): boolean {
  if (found.state !== "key") return found.state === "empty";
  try {
    openPrivateKey(pair, found.key, ledgerId);
    return false;
  } catch (error) {
    if (error instanceof SealBrokenError) return true;
    throw error;
  }
}
