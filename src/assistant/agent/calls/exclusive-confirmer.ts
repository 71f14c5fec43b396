import { AssistantError } from "../../assistant-error.ts";
import type { Caller } from "../../caller.ts";
import type { Ledger } from "../../ledger/port.ts";
import { confirmerEntry } from "./call-entries.ts";

/**
 * The connection that has registered as the only one that may confirm calls. While the ledger records a registration,
 * other connections cannot register, but may still confirm calls. After that, only the registered connection may.
 */
export class ExclusiveConfirmer {
  readonly #ledger: Ledger;
  #holder: { readonly connection: string; readonly recorded: Promise<unknown> } | undefined;
  /**
   * The registered connection after the ledger has recorded the registration; undefined if any connection may confirm.
   */
  #effective: string | undefined;

  constructor(ledger: Ledger) {
    this.#ledger = ledger;
  }

  /** Returns true if this connection may confirm calls. */
  isOpenTo(connection: string): boolean {
    return this.#effective === undefined || this.#effective === connection;
  }

  /**
   * Registers the connection of a caller. Rejects with `busy` if another connection has registered or is registering,
   * and with the ledger's error if it cannot record the registration. Has no effect if the connection has registered
   * before.
   */
  async register(caller: Caller): Promise<void> {
    const { connection } = caller;
    if (this.#holder && this.#holder.connection !== connection)
      throw new AssistantError("busy", "another program has already registered to confirm calls");
    const holder = this.#holder ?? {
      connection,
      recorded: this.#ledger.append(confirmerEntry(caller)),
    };
    this.#holder = holder;
    try {
      await holder.recorded;
    } catch (error) {
      if (this.#holder === holder) this.#holder = undefined;
      throw error;
    }
    // `release` may have ended the registration while the ledger recorded the entry, because the connection has closed.
    if (this.#holder === holder) this.#effective = connection;
  }

  /** Ends the registration of a connection that has ended. */
  release(connection: string): void {
    if (this.#holder?.connection !== connection) return;
    this.#holder = undefined;
    this.#effective = undefined;
  }
}
