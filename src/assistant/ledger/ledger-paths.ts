import { join } from "node:path";

/** Where everything of a ledger lies, below the assistant's state directory. */
export interface LedgerPaths {
  /** The folder of all but the key: mode 0700. */
  readonly dir: string;
  readonly db: string;
  /** Newest checkpoint but for the last second; notices that an old copy of the database was put back. */
  readonly checkpoint: string;
  /** The public key, for whoever verifies. */
  readonly verifierKey: string;
  /** Blocks of the disk that are given up to record that it is full. */
  readonly reserve: string;
  readonly lock: string;
  /** The private key, mode 0600; beside the folder, so that a copy of the ledger does not have it. */
  readonly signerKey: string;
}

export function resolveLedgerPaths(stateDir: string): LedgerPaths {
  const dir = join(stateDir, "ledger");
  return {
    dir,
    db: join(dir, "ledger.db"),
    checkpoint: join(dir, "checkpoint"),
    verifierKey: join(dir, "ledger.vkey"),
    reserve: join(dir, "reserve"),
    lock: join(dir, "lock.db"),
    signerKey: join(stateDir, "ledger.key"),
  };
}
