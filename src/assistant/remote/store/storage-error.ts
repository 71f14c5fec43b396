import { BerthError, getErrorCode } from "../../../base/errors.ts";
import { mapSqliteError } from "../../../base/sqlite.ts";
import { AssistantError } from "../../assistant-error.ts";

/**
 * The name of the stored data and the name of its file, for messages: for example `the list of remote providers` and
 * `remote.db`.
 */
export interface StoreFile {
  readonly what: string;
  readonly file: string;
}

/**
 * Turns an error of the file system or of SQLite into an AssistantError: `busy` while another program locks the
 * database, else `storage_failed`. An AssistantError is returned unchanged. The system's messages contain paths, so
 * they are only in the cause.
 */
export function toStorageError(thrown: unknown, { what, file }: StoreFile): AssistantError {
  if (thrown instanceof AssistantError) return thrown;
  if (isBusy(thrown))
    return new AssistantError(
      "busy",
      `another program has locked ${file}; nothing was changed; try again when it has ended`,
      { retryAfterSeconds: 5, cause: thrown },
    );
  const error = mapSqliteError(thrown);
  const code = error instanceof BerthError ? error.code : undefined;
  return new AssistantError("storage_failed", formatMessage(code, thrown, { what, file }), {
    cause: thrown,
  });
}

/** True if another program is reading or writing the database. */
export function isBusy(error: unknown): boolean {
  return /^SQLITE_(BUSY|LOCKED)/.test(findErrorCode(error) ?? "");
}

function formatMessage(
  code: string | undefined,
  thrown: unknown,
  { what, file }: StoreFile,
): string {
  switch (code) {
    case "disk_full":
      return `the disk is full; ${what} is unchanged; free some space, then try again`;
    case "store_corrupt":
      return `${file} is damaged and cannot be read; restore it from a backup`;
    case "wrong_state":
      return `${file} was written by a newer version of Berth; start that version again`;
    default: {
      const reason = findErrorCode(thrown);
      return `${file} cannot be used${reason === undefined ? "" : ` (${reason})`}; check the disk and the permissions of the assistant's data directory`;
    }
  }
}

/** Returns the code of SQLite or of the system, which may be wrapped in another error. */
function findErrorCode(thrown: unknown): string | undefined {
  return getErrorCode(thrown instanceof BerthError ? thrown.cause : thrown);
}
