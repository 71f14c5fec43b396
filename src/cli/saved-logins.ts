import { chmodSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, isAbsolute, join } from "node:path";
import { type Static, Type } from "typebox";
import { BerthError } from "../base/errors.ts";
import { LazyValidator } from "../base/json-validator.ts";
import type { Environment } from "../base/process-environment.ts";

const SavedLoginSchema = Type.Object({
  token: Type.String({ minLength: 1 }),
  /** The kind of the token: `berth logout` ends a session at the server, but only forgets a named token. */
  kind: Type.Union([Type.Literal("session"), Type.Literal("named")]),
  expires_at: Type.Optional(Type.String()),
});
const SavedLogins = Type.Object({
  /** The server that verbs use when neither a flag nor the environment names one. */
  current: Type.Optional(Type.String()),
  servers: Type.Record(Type.String(), SavedLoginSchema),
});
export type SavedLogin = Static<typeof SavedLoginSchema>;
export type SavedLogins = Static<typeof SavedLogins>;

const savedLoginsValidator = new LazyValidator<SavedLogins>(SavedLogins);

/** Returns the path of the file in which `berth login` saves the tokens of servers. */
export function credentialsFile(environment: Environment): string {
  const configured = environment["XDG_CONFIG_HOME"];
  const home = environment["HOME"] || homedir();
  const base = configured && isAbsolute(configured) ? configured : join(home, ".config");
  return join(base, "berth", "credentials.json");
}

export function readSavedLogins(environment: Environment): SavedLogins {
  const file = credentialsFile(environment);
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch {
    return { servers: {} };
  }
  try {
    const value: unknown = JSON.parse(text);
    if (savedLoginsValidator.isValid(value)) return value;
  } catch {
    // The error below is thrown both for a file that is not JSON and for a file with an invalid document.
  }
  throw new BerthError("invalid_request", `${file} was not written by \`berth login\``, {
    hint: `delete the file, then run \`berth login URL\``,
  });
}

/**
 * Saves the logins in a file with mode 0600. Writes a temporary file and renames it, so that no
 * other process reads half a file.
 */
export function writeSavedLogins(environment: Environment, credentials: SavedLogins): string {
  const file = credentialsFile(environment);
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const temporary = `${file}.${process.pid}`;
  writeFileSync(temporary, `${JSON.stringify(credentials, null, 2)}\n`, { mode: 0o600 });
  chmodSync(temporary, 0o600);
  renameSync(temporary, file);
  return file;
}
