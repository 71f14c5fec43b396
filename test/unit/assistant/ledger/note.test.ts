import { describe, expect, it } from "vitest";
import { openCheckpoint, signCheckpoint } from "../../../../src/assistant/ledger/checkpoint.ts";
import { hashLeaf } from "../../../../src/assistant/ledger/merkle-tree.ts";
import {
  createNoteSigner,
  openNote,
  parseSigner,
  parseVerifier,
  signNote,
} from "../../../../src/assistant/ledger/signed-note.ts";

/** The published example of Go's package note. An Ed25519 signature is always the same for a key and a text. */
const example = {
  signer: "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz",
  verifier: "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
  text: "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n",
  signature:
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n",
};

describe("a signed note", () => {
  const signer = parseSigner(example.signer);
  const verifier = parseVerifier(example.verifier);

  it("equals the note that other tools produce for the same key and text", () => {
    expect(signer?.verifier.text).toBe(example.verifier);
    expect(signer && signNote(example.text, signer)).toBe(`${example.text}\n${example.signature}`);
    const note = `${example.text}\n${example.signature}`;
    expect(verifier && openNote(note, verifier)).toEqual({ text: example.text });
  });

  it("can have signatures of other keys, and empty lines in its text", () => {
    const other = createNoteSigner("other.example/log", Buffer.alloc(32, 7));
    const text = "one\n\ntwo\n";
    const line = (name: typeof other) => signNote(text, name).slice(text.length + 1);
    expect(signer).toBeDefined();
    if (!signer) return;
    const note = `${text}\n${line(other)}${line(signer)}`;
    expect(openNote(note, signer.verifier)).toEqual({ text });
    expect(openNote(note, createNoteSigner("third", Buffer.alloc(32)).verifier)).toEqual({
      fault: "unknown",
    });
  });

  it("is rejected after a change of any bit", () => {
    const own = createNoteSigner("berth.local/1", Buffer.alloc(32, 9));
    const note = Buffer.from(signCheckpoint(3, hashLeaf("x"), own));
    expect(openCheckpoint(note.toString(), own.verifier)).toMatchObject({ size: 3 });
    for (let bit = 0; bit < note.length * 8; bit += 1) {
      const changed = Buffer.from(note);
      changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      const { fault } = openCheckpoint(changed.toString(), own.verifier);
      expect([bit, fault]).not.toEqual([bit, undefined]);
    }
  });

  it("is not verified with an invalid key", () => {
    for (const text of [
      "",
      "name+00000000+AAAA",
      example.verifier.replace("c74f20a3", "c74f20a4"),
      example.verifier.replace("ARpc", "AZpc"),
      example.verifier.replace("+ARpc", "+BRpc"),
    ])
      expect([text, parseVerifier(text)]).toEqual([text, undefined]);
    expect(parseSigner(example.verifier)).toBeUndefined();
    expect(parseSigner(example.signer.replace("YEKF", "YEKG"))).toBeUndefined();
  });
});

describe("a checkpoint of a ledger", () => {
  const own = createNoteSigner("berth.local/1", Buffer.alloc(32, 9));
  const sign = (text: string) => openCheckpoint(signNote(text, own), own.verifier).fault;
  const root = hashLeaf("x").toString("base64");

  it.each([
    ["berth.local/1\n3\n" + root + "\n", undefined],
    ["berth.local/1\n3\n" + root + "\nextension\n", undefined],
    ["berth.local/2\n3\n" + root + "\n", "unknown"],
    ["berth.local/1\n03\n" + root + "\n", "malformed"],
    ["berth.local/1\n-3\n" + root + "\n", "malformed"],
    ["berth.local/1\n3\n" + root.slice(4) + "\n", "malformed"],
    ["berth.local/1\n3\n", "malformed"],
  ])("with the text %j has the fault %s", (text, fault) => {
    expect(sign(text)).toBe(fault);
  });
});
