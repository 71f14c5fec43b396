import { BerthError } from "../../../base/errors.ts";
import { mapSqliteError } from "../../../base/sqlite.ts";
import { AssistantError } from "../../assistant-error.ts";

/** What could not be read or written, for the sentences: `the list of remote providers`, `remote.db`. */
export interface StoreFile {
  readonly what: string;
  readonly file: string;
}

/**
 * What a call tells when files fail: `busy` while another program holds the database, else `storage_failed`.
 * An AssistantError comes back as it is. Texts of the system name paths, so they stay in the cause.
 */
export function toStorageError(thrown: unknown, { what, file }: StoreFile): AssistantError {
  if (thrown instanceof AssistantError) return thrown;
  if (isBusy(thrown))
    return new AssistantError(
      "busy",
      `another program holds ${file}; nothing was done; try again when it has ended`,
      { retryAfterSeconds: 5, cause: thrown },
    );
  const error = mapSqliteError(thrown);
  const code = error instanceof BerthError ? error.code : undefined;
  return new AssistantError("storage_failed", formatMessage(code, thrown, { what, file }), {
    cause: thrown,
  });
}

/** Another program reads or writes the database at this moment. */
export function isBusy(error: unknown): boolean {
  return /^SQLITE_(BUSY|LOCKED)/.test(getErrorCode(error) ?? "");
}

function formatMessage(
  code: string | undefined,
  thrown: unknown,
  { what, file }: StoreFile,
): string {
  switch (code) {
    case "disk_full":
      return `the disk is full; ${what} stayed as before; free some space, then try again`;
    case "store_corrupt":
      return `${file} is damaged and cannot be read; bring it back from a backup`;
    case "wrong_state":
      return `${file} was written by a newer version of Berth; start that version again`;
    default: {
      const reason = getErrorCode(thrown);
      return `${file} cannot be used${reason === undefined ? "" : ` (${reason})`}; check the disk and the permissions of the assistant's data directory`;
    }
  }
}

/** SQLite's or the system's own code, which opening a database wraps. */
function getErrorCode(thrown: unknown): string | undefined {
  const error = thrown instanceof BerthError ? thrown.cause : thrown;
  return error instanceof Error && "code" in error && typeof error.code === "string"
    ? error.code
    : undefined;
}
