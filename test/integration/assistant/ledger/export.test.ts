import { createHash, createPublicKey, verify } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { OfflineLedger } from "../../../../src/assistant/ledger/offline-ledger.ts";
import { tilePath } from "../../../../src/assistant/ledger/tiles.ts";
import {
  appendEntries,
  createStateDirectory,
  openTestLedger,
} from "../../../support/ledger-fixtures.ts";

const sha256 = (...parts: readonly Uint8Array[]) => {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return hash.digest();
};

const place = (index: number) =>
  String(index)
    .padStart(3, "0")
    .replace(/^(\d+)(\d{3})$/, "x$1/$2");

/**
 * Reads C2SP tlog-tiles without any code of the ledger, as a tool does that knows only the specification. Returns
 * the entries that the signed root covers, and throws if anything is inconsistent.
 */
function readTiles(directory: string, verifierKey: string): string[] {
  const [name = "", id, encoded = ""] = verifierKey.trim().split("+");
  const key = Buffer.from(verifierKey.trim().slice(`${name}+${id}+`.length), "base64");
  expect(encoded.length).toBeGreaterThan(0);
  expect(
    sha256(Buffer.from(`${name}\n`), key)
      .subarray(0, 4)
      .toString("hex"),
  ).toBe(id);
  const note = readFileSync(join(directory, "checkpoint"), "utf8");
  const text = note.slice(0, note.indexOf("\n\n") + 1);
  const signature = Buffer.from(note.trimEnd().split(" ").at(-1) ?? "", "base64").subarray(4);
  const der = Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), key.subarray(1)]);
  const publicKey = createPublicKey({ key: der, format: "der", type: "spki" });
  expect(verify(null, Buffer.from(text), publicKey, signature)).toBe(true);
  const [origin, sizeText, root = ""] = text.split("\n");
  expect(origin).toBe(name);

  const size = Number(sizeText);
  const file = (kind: string, index: number, count: number) =>
    readFileSync(
      join(directory, "tile", kind, `${place(index)}${count === 256 ? "" : `.p/${count}`}`),
    );
  const entries: string[] = [];
  let level: Buffer[] = [];
  for (let index = 0; index * 256 < size; index += 1) {
    const count = Math.min(256, size - index * 256);
    let bundle = file("entries", index, count);
    const hashes = file("0", index, count);
    expect(hashes.length).toBe(count * 32);
    for (let at = 0; at < count; at += 1) {
      const length = bundle.readUInt16BE(0);
      const entry = bundle.subarray(2, 2 + length);
      bundle = bundle.subarray(2 + length);
      const leaf = sha256(Buffer.of(0), entry);
      expect(leaf.equals(hashes.subarray(at * 32, at * 32 + 32))).toBe(true);
      level.push(leaf);
      entries.push(entry.toString());
    }
    expect(bundle.length).toBe(0);
  }
  // Level 1 contains the root of each full tile of level 0.
  const above = Math.floor(size / 256);
  expect(existsSync(join(directory, "tile/1"))).toBe(above > 0);
  if (above > 0) {
    const tops = Array.from({ length: above }, (_, index) =>
      treeRoot(level.slice(index * 256, index * 256 + 256)),
    );
    expect(file("1", 0, above).equals(Buffer.concat(tops))).toBe(true);
  }
  level = [treeRoot(level)];
  expect(level[0]?.toString("base64")).toBe(root);
  return entries;
}

function treeRoot(hashes: readonly Buffer[]): Buffer {
  const [first] = hashes;
  if (hashes.length === 1 && first) return first;
  const split = 2 ** Math.floor(Math.log2(hashes.length - 1));
  return sha256(Buffer.of(1), treeRoot(hashes.slice(0, split)), treeRoot(hashes.slice(split)));
}

it("an exported ledger can be read with only the specification, while a daemon appends", async () => {
  const dir = createStateDirectory();
  await using ledger = await openTestLedger(dir);
  for (const count of [254, 1, 300]) {
    await appendEntries(ledger, count);
    using offline = OfflineLedger.open(dir);
    const target = createStateDirectory();
    const { size, files } = offline.export(join(target, "out"));
    expect(size).toBe(ledger.state.size);
    expect(files).toBeGreaterThan(3);
    const key = readFileSync(join(target, "out/ledger.vkey"), "utf8");
    const entries = readTiles(join(target, "out"), key);
    expect(entries.length).toBe(size);
    expect(entries.map((text) => JSON.parse(text).seq)).toEqual([...entries.keys()]);
    expect(entries.join("")).not.toContain("prompt 1");
    expect(() => offline.export(join(target, "out"))).toThrow(/not empty/);
  }
});

it("the files of exported tiles have the paths that C2SP tlog-tiles specifies", () => {
  expect(tilePath(0, 0, 256)).toBe("tile/0/000");
  expect(tilePath("entries", 1_234_067, 256)).toBe("tile/entries/x001/x234/067");
  expect(tilePath(2, 999, 17)).toBe("tile/2/999.p/17");
  expect(tilePath(1, 1_000, 1)).toBe("tile/1/x001/000.p/1");
});
