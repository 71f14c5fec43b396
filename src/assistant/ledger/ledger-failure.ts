import { BerthError } from "../../base/errors.ts";
import { mapSqliteError } from "../../base/sqlite.ts";

/**
 * Why the ledger cannot be written or read.
 *
 *   locked       another process writes it
 *   key          its key is missing, damaged, open to others, or another one
 *   tampered     what is stored does not agree with itself
 *   rolled_back  it agrees with itself, but is older than, or another one than, what was seen before
 *   full         no space is left
 *   io           anything else that the system or SQLite said
 */
export type LedgerFailureKind = "locked" | "key" | "tampered" | "rolled_back" | "full" | "io";

/** Stays inside the ledger; callers get an AssistantError. The message names no path. */
export class LedgerFailure extends Error {
  readonly kind: LedgerFailureKind;
  /** The next thing to try, for a person; undefined where the message says it. */
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

/** A LedgerFailure for whatever was thrown; texts of the system may name paths, so they stay in the cause. */
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
      hint: "keep its files for an inquiry, and restore the data directory from a backup",
      cause: error,
    });
  const code = formatErrorCode(error.cause);
  return new LedgerFailure("io", `the ledger's files cannot be used${code}`, { cause: error });
}

function diskFullFailure(cause: unknown): LedgerFailure {
  return new LedgerFailure("full", "the disk is full", { hint: "free some space", cause });
}

function formatErrorCode(error: unknown): string {
  return error instanceof Error && "code" in error && typeof error.code === "string"
    ? ` (${error.code})`
    : "";
}
