import {
  createHash,
  createPrivateKey,
  createPublicKey,
  type KeyObject,
  sign,
  verify,
} from "node:crypto";

/**
 * Signed notes (C2SP signed-note) with Ed25519 keys: a text, an empty line and lines with signatures. Keys have the
 * format of Go's tools: `NAME+HASH+BASE64` and `PRIVATE+KEY+NAME+HASH+BASE64`.
 */

/** The type byte of Ed25519: it is hashed into every key id, and is the first byte of an encoded key. */
const ED25519 = 1;
const SIGNATURE_BYTES = 64;
const KEY_BYTES = 32;
/**
 * The bytes that precede the 32 bytes of a key in DER. PUBLIC_PREFIX begins a SubjectPublicKeyInfo, and PRIVATE_PREFIX
 * a PKCS #8 private key.
 */
const PUBLIC_PREFIX = Buffer.from("302a300506032b6570032100", "hex");
const PRIVATE_PREFIX = Buffer.from("302e020100300506032b657004220420", "hex");

export interface NoteVerifier {
  readonly name: string;
  /** The key id: the first four bytes of sha256 over the key's name, a line break, the type and the key. */
  readonly id: Buffer;
  readonly key: KeyObject;
  /** The encoded public key, `NAME+HASH+BASE64`. */
  readonly text: string;
}

export interface NoteSigner {
  readonly verifier: NoteVerifier;
  readonly key: KeyObject;
  /** The encoded private key, `PRIVATE+KEY+NAME+HASH+BASE64`. */
  readonly text: string;
}

/** Creates a signer from a 32-byte seed of an Ed25519 key. */
export function createNoteSigner(name: string, seed: Buffer): NoteSigner {
  const key = createPrivateKey({
    key: Buffer.concat([PRIVATE_PREFIX, seed]),
    format: "der",
    type: "pkcs8",
  });
  const exported = createPublicKey(key).export({ format: "der", type: "spki" });
  const verifier = createNoteVerifier(name, exported.subarray(PUBLIC_PREFIX.length));
  return { verifier, key, text: `PRIVATE+KEY+${encodeKey(name, verifier.id, seed)}` };
}

export function createNoteVerifier(name: string, publicKey: Buffer): NoteVerifier {
  const key = createPublicKey({
    key: Buffer.concat([PUBLIC_PREFIX, publicKey]),
    format: "der",
    type: "spki",
  });
  const id = createHash("sha256")
    .update(`${name}\n`)
    .update(Buffer.of(ED25519))
    .update(publicKey)
    .digest()
    .subarray(0, 4);
  return { name, id, key, text: encodeKey(name, id, publicKey) };
}

function encodeKey(name: string, id: Buffer, key: Buffer): string {
  const encoded = Buffer.concat([Buffer.of(ED25519), key]).toString("base64");
  return `${name}+${id.toString("hex")}+${encoded}`;
}

/**
 * Parses an encoded public key. Returns undefined if the text is not an Ed25519 key in this format, or if its hash does
 * not match the key.
 */
export function parseVerifier(text: string): NoteVerifier | undefined {
  const parts = decodeKey(text);
  if (!parts) return undefined;
  const verifier = createNoteVerifier(parts.name, parts.key);
  return verifier.text === text.trim() ? verifier : undefined;
}

export function parseSigner(text: string): NoteSigner | undefined {
  const [, rest] = /^PRIVATE\+KEY\+(.+)$/.exec(text.trim()) ?? [];
  const parts = rest === undefined ? undefined : decodeKey(rest);
  if (!parts) return undefined;
  const signer = createNoteSigner(parts.name, parts.key);
  return signer.text === text.trim() ? signer : undefined;
}

function decodeKey(text: string): { name: string; key: Buffer } | undefined {
  const [, name, encoded] = /^([^\s+]+)\+[0-9a-f]{8}\+([A-Za-z0-9+/]+=*)$/.exec(text.trim()) ?? [];
  if (name === undefined || encoded === undefined) return undefined;
  const bytes = Buffer.from(encoded, "base64");
  if (bytes.length !== 1 + KEY_BYTES || bytes[0] !== ED25519) return undefined;
  return { name, key: bytes.subarray(1) };
}

/** Signs a text and returns the signed note. `text` must end with a line break. */
export function signNote(text: string, signer: NoteSigner): string {
  const { verifier, key } = signer;
  const signature = Buffer.concat([verifier.id, sign(null, Buffer.from(text), key)]);
  return `${text}\n— ${verifier.name} ${signature.toString("base64")}\n`;
}

/**
 * `malformed` means that the text is not a note, `unknown` that this key has not signed the note, and `forged` that a
 * signature has the id of this key but does not match.
 */
export type NoteFault = "malformed" | "unknown" | "forged";

/** Verifies a note. Returns its text if the verifier's key has signed it, otherwise a fault. */
export function openNote(
  note: string,
  verifier: NoteVerifier,
): { readonly text: string; readonly fault?: undefined } | { readonly fault: NoteFault } {
  const end = note.lastIndexOf("\n\n");
  if (end === -1 || !note.endsWith("\n") || hasControlCharacters(note))
    return { fault: "malformed" };
  const text = note.slice(0, end + 1);
  let isSigned = false;
  for (const line of note.slice(end + 2, -1).split("\n")) {
    const [, name, encoded] = /^— ([^\s+]+) ([A-Za-z0-9+/]+=*)$/.exec(line) ?? [];
    if (name === undefined || encoded === undefined) return { fault: "malformed" };
    const bytes = Buffer.from(encoded, "base64");
    // Decoding Base64 ignores the bits after the last whole byte. Without this comparison, those bits could be changed
    // unnoticed.
    if (bytes.toString("base64") !== encoded || bytes.length < 5) return { fault: "malformed" };
    if (name !== verifier.name || !bytes.subarray(0, 4).equals(verifier.id)) continue;
    const signature = bytes.subarray(4);
    if (signature.length !== SIGNATURE_BYTES) return { fault: "forged" };
    if (!verify(null, Buffer.from(text), verifier.key, signature)) return { fault: "forged" };
    isSigned = true;
  }
  return isSigned ? { text } : { fault: "unknown" };
}

function hasControlCharacters(text: string): boolean {
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code < 0x20 && code !== 0x0a) return true;
  }
  return false;
}
