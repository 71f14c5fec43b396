import { randomBytes } from "node:crypto";
import { statSync } from "node:fs";
import { replaceFileSync } from "../../base/atomic-file.ts";
import { LedgerFailure } from "./ledger-failure.ts";
import type { LedgerPaths } from "./ledger-paths.ts";
import { readFileIfExists } from "./read-file-if-exists.ts";
import {
  createNoteSigner,
  type NoteSigner,
  type NoteVerifier,
  parseSigner,
  parseVerifier,
} from "./signed-note.ts";

/**
 * Loads the ledger's key, or creates it for a new ledger. An existing ledger never gets a new key: otherwise, anyone
 * who can delete the key could start a second history. Throws LedgerFailure `key`.
 */
export function loadOrCreateSigner(files: LedgerPaths, isNew: boolean): NoteSigner {
  const text = readFileIfExists(files.signerKey);
  if (text === undefined) {
    if (!isNew)
      throw keyFailure(
        "the ledger's private key is missing",
        "restore ledger.key to the assistant's data directory from a backup",
      );
    const signer = createNoteSigner(
      `berth.local/${randomBytes(8).toString("hex")}`,
      randomBytes(32),
    );
    replaceFileSync(files.signerKey, `${signer.text}\n`);
    replaceFileSync(files.verifierKey, `${signer.verifier.text}\n`);
    return signer;
  }
  if ((statSync(files.signerKey).mode & 0o077) !== 0)
    throw keyFailure(
      "the ledger's private key is readable for other users",
      "set the mode of ledger.key to 0600; another user who has read the key can sign this ledger",
    );
  const signer = parseSigner(text);
  if (!signer) throw keyFailure("the ledger's private key is damaged", "restore ledger.key");
  const known = readFileIfExists(files.verifierKey);
  if (known === undefined) replaceFileSync(files.verifierKey, `${signer.verifier.text}\n`);
  else if (known.trim() !== signer.verifier.text)
    throw keyFailure("the ledger's private and public key do not belong together", "restore both");
  return signer;
}

/** Reads the public key. Throws LedgerFailure `key`. */
export function readVerifier(files: LedgerPaths): NoteVerifier {
  const text = readFileIfExists(files.verifierKey);
  if (text === undefined)
    throw keyFailure("the ledger's public key is missing", "restore ledger.vkey, or give --key");
  const verifier = parseVerifier(text);
  if (!verifier)
    throw keyFailure("the ledger's public key is damaged", "restore ledger.vkey, or give --key");
  return verifier;
}

function keyFailure(message: string, hint: string): LedgerFailure {
  return new LedgerFailure("key", message, { hint });
}
