import { join } from "node:path";

/** The files of a ledger, below the assistant's state directory. */
export interface LedgerPaths {
  /** The folder of all files except the key. Mode 0700. */
  readonly dir: string;
  readonly db: string;
  /** A checkpoint that is at most one second old. It reveals that the database was replaced by an older copy. */
  readonly checkpoint: string;
  /** The public key, for verification. */
  readonly verifierKey: string;
  /** Allocated blocks that are released when the disk is full, so that the ledger can record this. */
  readonly reserve: string;
  readonly lock: string;
  /** The private key, mode 0600. It is outside the folder, so that copies of the ledger do not contain it. */
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
