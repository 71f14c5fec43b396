import { join } from "node:path";

/** The files of a ledger, below the assistant's state directory. */
export interface LedgerPaths {
  /** The ledger's folder, with mode 0700. It contains all files of the ledger except the private key. */
  readonly dir: string;
  readonly db: string;
  /**
   * The file with the newest saved checkpoint, which is written within a second of an append. A checkpoint outside the
   * database reveals that the database was replaced by an older copy.
   */
  readonly checkpoint: string;
  /** The file with the public key, for verification. */
  readonly verifierKey: string;
  /**
   * The reserve file. Its disk space is released when the disk is full, so that the ledger can record that the disk is
   * full.
   */
  readonly reserve: string;
  readonly lock: string;
  /**
   * The file with the private key, mode 0600. The private key is outside of `dir`, so that copies of the ledger do not
   * contain it.
   */
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
