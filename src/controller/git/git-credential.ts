import { BerthError } from "../../base/errors.ts";
import type { GitCredential } from "./port.ts";

/**
 * Reads the credential in a Secret's values: `token` (with `username` if the server requires a certain user name), or
 * `sshKey` (with `knownHosts`). Also accepts the key names that Kubernetes and Flux use. Throws git_denied with a
 * message that names the expected keys, but no value. `secret` is the Secret's name.
 */
export function parseGitCredential(
  secret: string,
  values: Readonly<Record<string, string>>,
): GitCredential {
  const token = readValue(values, "token") ?? readValue(values, "password");
  const privateKey =
    readValue(values, "sshKey") ??
    readValue(values, "ssh-privatekey") ??
    readValue(values, "identity");
  if (token !== undefined && privateKey !== undefined)
    throw invalidCredential(
      secret,
      values,
      "has a token and an ssh key, and only one of them may be set",
    );
  if (token !== undefined) {
    const username = readValue(values, "username");
    if (/[\r\n\0]/.test(token + (username ?? "")))
      throw invalidCredential(secret, values, "has a token or a user name of more than one line");
    return { type: "token", username, token };
  }
  if (privateKey === undefined)
    throw invalidCredential(secret, values, "contains no git credential");
  if (!/-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(privateKey))
    throw invalidCredential(
      secret,
      values,
      "has an ssh key that is not a private key in PEM or OpenSSH form",
    );
  const knownHosts = readValue(values, "knownHosts") ?? readValue(values, "known_hosts");
  return { type: "sshKey", privateKey, knownHosts };
}

/**
 * Returns a value of the Secret without surrounding white space, because pasted text often ends with a newline;
 * undefined if the value is missing or empty.
 */
function readValue(values: Readonly<Record<string, string>>, key: string): string | undefined {
  if (!Object.hasOwn(values, key)) return undefined;
  const text = values[key]?.trim() ?? "";
  return text === "" ? undefined : text;
}

function invalidCredential(
  secret: string,
  values: Readonly<Record<string, string>>,
  why: string,
): BerthError {
  const keys = Object.keys(values).toSorted().join(", ") || "none";
  return new BerthError("git_denied", `Secret ${secret} ${why}; its keys: ${keys}`, {
    hint: "give the Secret the key token (and username, if the server requires a certain one), or sshKey (and knownHosts)",
  });
}
