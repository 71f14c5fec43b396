import Database from "better-sqlite3";
import { BerthError } from "../../../base/errors.ts";
import { mapSqliteError } from "../../../base/sqlite.ts";
import { AssistantError } from "../../assistant-error.ts";
import { MemorySealBrokenError } from "./app-key.ts";

/** Another program holds the database; it mostly lets go soon. */
export function isSqliteBusy(error: unknown): boolean {
  return error instanceof Database.SqliteError && error.code.startsWith("SQLITE_BUSY");
}

/**
 * An AssistantError for whatever the system, SQLite or a seal said: `busy` where another program holds the
 * database, else `storage_failed`. Texts of the system name paths, so they stay in the cause.
 */
export function toMemoryError(thrown: unknown): AssistantError {
  if (thrown instanceof AssistantError) return thrown;
  if (isSqliteBusy(thrown))
    return new AssistantError(
      "busy",
      "another program is writing to the memory's database; nothing was done; try again when it has ended",
      { retryAfterSeconds: 5, cause: thrown },
    );
  if (thrown instanceof MemorySealBrokenError) return memoryDamaged(thrown);
  const error = mapSqliteError(thrown);
  const code = error instanceof BerthError ? error.code : undefined;
  if (code === "disk_full")
    return new AssistantError(
      "storage_failed",
      "the disk is full; the memory is as it was; free some space, then try again",
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

/** There are values of this app, and nothing to read them with. */
export function keyMissing(app: string): AssistantError {
  return new AssistantError(
    "storage_failed",
    `the memory of ${app} cannot be read: its key is missing or damaged; bring memory.keys back from a backup, or wipe the memory of this app`,
  );
}

function memoryDamaged(cause: unknown): AssistantError {
  return new AssistantError(
    "storage_failed",
    "the memory is damaged and cannot be read; bring memory.db and memory.keys back from a backup",
    { cause },
  );
}

function formatErrorCode(error: unknown): string {
  return error instanceof Error && "code" in error && typeof error.code === "string"
    ? ` (${error.code})`
    : "";
}
