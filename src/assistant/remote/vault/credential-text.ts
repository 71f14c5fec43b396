import { invalidParameterError } from "../../assistant-error.ts";
import type { Credential } from "./port.ts";

/** The largest size of a secret. It is larger than the keys and tokens of all providers. */
const SECRET_BYTES_MAX = 16 * 1024;
/** The latest time that a JavaScript Date can represent, in milliseconds. */
const TIME_MS_MAX = 8.64e15;

/**
 * Throws `invalid_request` for a credential that no provider would issue. The message does not quote the credential.
 */
export function checkCredential(credential: Credential): void {
  if (credential.kind === "key") {
    checkSecret("key", credential.key);
    return;
  }
  checkSecret("access_token", credential.accessToken);
  if (credential.refreshToken !== undefined) checkSecret("refresh_token", credential.refreshToken);
  // The client id may be absent, because providers that issue keys at sign-in have no client ids.
  if (credential.clientId !== "") checkSecret("client_id", credential.clientId);
  const { expiresAtMs = 0 } = credential;
  if (!(Math.abs(expiresAtMs) <= TIME_MS_MAX) || !Number.isInteger(expiresAtMs))
    throw invalidParameterError("expires_at", "is not a valid time");
}

/** Converts a credential to the text that is encrypted. */
export function serializeCredential(credential: Credential): string {
  return JSON.stringify(
    credential.kind === "key"
      ? [credential.key]
      : [
          credential.accessToken,
          credential.refreshToken ?? null,
          credential.expiresAtMs ?? null,
          credential.clientId,
        ],
  );
}

/**
 * Parses the decrypted text of a credential. The text needs no validation, because the encryption is authenticated:
 * only `serializeCredential` can have written the text.
 */
export function parseCredential(kind: Credential["kind"], text: string): Credential {
  if (kind === "key") {
    const [key]: [string] = JSON.parse(text);
    return { kind, key };
  }
  const [accessToken, refreshToken, expiresAtMs, clientId]: [
    string,
    string | null,
    number | null,
    string,
  ] = JSON.parse(text);
  return {
    kind,
    accessToken,
    refreshToken: refreshToken ?? undefined,
    expiresAtMs: expiresAtMs ?? undefined,
    clientId,
  };
}

function checkSecret(param: string, text: string): void {
  const bytes = Buffer.byteLength(text);
  if (bytes === 0) throw invalidParameterError(param, "is empty");
  if (bytes > SECRET_BYTES_MAX)
    throw invalidParameterError(
      param,
      `has ${bytes} bytes; at most ${SECRET_BYTES_MAX} are possible`,
    );
}
