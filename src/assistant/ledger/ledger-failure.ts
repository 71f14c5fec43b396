import { BerthError, formatErrorCode } from "../../base/errors.ts";
import { mapSqliteError } from "../../base/sqlite.ts";

/**
 * The reason why the ledger cannot be written or read:
 *
 * - `locked`: another process writes the ledger.
 * - `key`: the ledger's key is missing, damaged, readable for other users, or a different one.
 * - `tampered`: the stored data are inconsistent.
 * - `rolled_back`: the data are consistent, but older than those seen before, or of another history.
 * - `full`: the disk is full.
 * - `io`: any other error of the system or of SQLite.
 */
export type LedgerFailureKind = "locked" | "key" | "tampered" | "rolled_back" | "full" | "io";

/** An error inside the ledger; callers receive an AssistantError. The message names no path. */
export class LedgerFailure extends Error {
  readonly kind: LedgerFailureKind;
  /** The next step for the user. Undefined if the message already contains it. */
  readonly hint: string | undefined;

  constructor(
    kind: LedgerFailureKind,
    message: string,
    options: { hint?: string; cause?: unknown } = {},
  ) {
    super(message, { cause: options.cause });
    this.name = "LedgerFailure";
    this.kind = kind;
    this.hint = options.hint;
  }
}

/**
 * Converts a thrown value to a LedgerFailure. Messages of the operating system may contain paths, so they are only in
 * `cause`.
 */
export function toLedgerFailure(thrown: unknown): LedgerFailure {
  if (thrown instanceof LedgerFailure) return thrown;
  const error = mapSqliteError(thrown);
  if (!(error instanceof BerthError))
    return new LedgerFailure("io", `the ledger's files cannot be used${formatErrorCode(error)}`, {
      cause: error,
    });
  if (error.code === "disk_full") return diskFullFailure(error);
  if (error.code === "store_corrupt")
    return new LedgerFailure("io", "the ledger's database is damaged and cannot be read", {
      hint: "keep its files for an investigation, and restore the data directory from a backup",
      cause: error,
    });
  const code = formatErrorCode(error.cause);
  return new LedgerFailure("io", `the ledger's files cannot be used${code}`, { cause: error });
}

function diskFullFailure(cause: unknown): LedgerFailure {
  return new LedgerFailure("full", "the disk is full", { hint: "free some space", cause });
}
