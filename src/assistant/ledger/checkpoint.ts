import { HASH_BYTES } from "./merkle-tree.ts";
import {
  type NoteFault,
  type NoteSigner,
  type NoteVerifier,
  openNote,
  signNote,
} from "./signed-note.ts";

/** The signed head of the tree at one size (C2SP tlog-checkpoint). */
export interface Checkpoint {
  readonly origin: string;
  readonly size: number;
  readonly root: Buffer;
}

/** Returns a checkpoint as a signed note. The log's origin is the name of the signer's key. */
export function signCheckpoint(size: number, root: Buffer, signer: NoteSigner): string {
  return signNote(`${signer.verifier.name}\n${size}\n${root.toString("base64")}\n`, signer);
}

/**
 * Parses a checkpoint and verifies its signature with the public key of `verifier`. Returns a fault if the note is
 * malformed, the signature is wrong, or the checkpoint belongs to another log.
 */
export function openCheckpoint(
  note: string,
  verifier: NoteVerifier,
): (Checkpoint & { readonly fault?: undefined }) | { readonly fault: NoteFault } {
  const opened = openNote(note, verifier);
  if (opened.fault !== undefined) return opened;
  const [origin, sizeText, rootText, ...others] = opened.text.slice(0, -1).split("\n");
  if (origin === undefined || sizeText === undefined || rootText === undefined)
    return { fault: "malformed" };
  if (others.includes("") || !/^(0|[1-9][0-9]{0,15})$/.test(sizeText))
    return { fault: "malformed" };
  const [size, root] = [Number(sizeText), Buffer.from(rootText, "base64")];
  if (!Number.isSafeInteger(size) || root.length !== HASH_BYTES) return { fault: "malformed" };
  if (root.toString("base64") !== rootText) return { fault: "malformed" };
  return origin === verifier.name ? { origin, size, root } : { fault: "unknown" };
}

export const faultDescriptions: Readonly<Record<NoteFault, string>> = {
  malformed: "is damaged",
  unknown: "is not signed by this ledger's key",
  forged: "has a signature that does not match its text",
};
