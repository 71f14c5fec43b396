import Database from "better-sqlite3";
import { BerthError, formatErrorCode } from "../../../base/errors.ts";
import { SealBrokenError } from "../../../base/sealing-key.ts";
import { mapSqliteError } from "../../../base/sqlite.ts";
import { AssistantError } from "../../assistant-error.ts";

/** Returns true if another program has locked the database, usually for a short time. */
export function isSqliteBusy(error: unknown): boolean {
  return error instanceof Database.SqliteError && error.code.startsWith("SQLITE_BUSY");
}

/**
 * Converts an error to `busy` if another program has locked the database, otherwise to `storage_failed`. Messages of
 * the system may contain paths, so they are only kept in `cause`.
 */
export function toMemoryError(thrown: unknown): AssistantError {
  if (thrown instanceof AssistantError) return thrown;
  if (isSqliteBusy(thrown))
    return new AssistantError(
      "busy",
      "another program is writing to the memory's database; nothing was done; try again later",
      { retryAfterSeconds: 5, cause: thrown },
    );
  if (thrown instanceof SealBrokenError) return memoryDamaged(thrown);
  const error = mapSqliteError(thrown);
  const code = error instanceof BerthError ? error.code : undefined;
  if (code === "disk_full")
    return new AssistantError(
      "storage_failed",
      "the disk is full; the memory is unchanged; free some space, then try again",
      { cause: thrown },
    );
  if (code === "store_corrupt") return memoryDamaged(thrown);
  if (code === "wrong_state")
    return new AssistantError(
      "storage_failed",
      "the memory was written by a newer version of Berth; start that version again",
      { cause: thrown },
    );
  return new AssistantError(
    "storage_failed",
    `the memory's files cannot be used${formatErrorCode(thrown)}; check the disk and the permissions of the assistant's data directory`,
    { cause: thrown },
  );
}

/** Creates the error for an app with values but without a key. */
export function keyMissing(app: string): AssistantError {
  return new AssistantError(
    "storage_failed",
    `the memory of ${app} cannot be read: its key is missing or damaged; restore memory.keys from a backup, or wipe the memory of this app`,
  );
}

function memoryDamaged(cause: unknown): AssistantError {
  return new AssistantError(
    "storage_failed",
    "the memory is damaged and cannot be read; restore memory.db and memory.keys from a backup",
    { cause },
  );
}
