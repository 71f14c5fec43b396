import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  edgeAt,
  proveConsistency,
  proveInclusion,
  rootAt,
  TILE_HEIGHT,
  type TreeHashes,
  verifyConsistency,
  verifyInclusion,
} from "../../../../src/assistant/ledger/merkle-proof.ts";
import { hashLeaf, hashNode, TreeEdge } from "../../../../src/assistant/ledger/merkle-tree.ts";

const hex = (hashes: readonly Buffer[]) => hashes.map((hash) => hash.toString("hex"));

/** The test vectors that implementations of certificate transparency share. */
const inputs = [
  "",
  "00",
  "10",
  "2021",
  "3031",
  "40414243",
  "5051525354555657",
  "606162636465666768696a6b6c6d6e6f",
].map((text) => Buffer.from(text, "hex"));
const roots = [
  "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
  "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
  "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
  "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
  "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
  "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
  "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
  "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
  "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
];
const node = {
  leaf1: "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
  two3: "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
  four7: "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
  leaf4: "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
  six7: "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
  four5: "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
};

/** Computes the hashes that a ledger stores: on each level n, the roots of all full subtrees with 256 ** n leaves. */
function buildTree(leaves: readonly Buffer[]): { hashes: TreeHashes; edge: TreeEdge } {
  const levels: Buffer[][] = [[...leaves]];
  const edge = new TreeEdge();
  for (const leaf of leaves) {
    edge.add(leaf, (height, index, hash) => {
      if (height % TILE_HEIGHT !== 0) return;
      const row = (levels[height / TILE_HEIGHT] ??= []);
      expect(row.length).toBe(index);
      row.push(hash);
    });
  }
  return { edge, hashes: { read: (level, from, to) => levels[level]?.slice(from, to) ?? [] } };
}

/** Implements the definition of RFC 6962, section 2.1, literally. */
function computeRootByDefinition(leaves: readonly Buffer[]): Buffer {
  const [first] = leaves;
  if (first === undefined) return createHash("sha256").digest();
  if (leaves.length === 1) return first;
  let split = 1;
  while (split * 2 < leaves.length) split *= 2;
  return createHash("sha256")
    .update(Buffer.of(1))
    .update(computeRootByDefinition(leaves.slice(0, split)))
    .update(computeRootByDefinition(leaves.slice(split)))
    .digest();
}

const numbered = (count: number) =>
  Array.from({ length: count }, (_, index) => hashLeaf(`entry ${index}`));

describe("the Merkle tree, compared with test vectors for RFC 6962", () => {
  const { hashes } = buildTree(inputs.map((input) => hashLeaf(input)));

  it("has the expected hashes of leaves and nodes", () => {
    expect(hex([hashLeaf("L123456"), hashNode(Buffer.from("N123"), Buffer.from("N456"))])).toEqual([
      "395aa064aa4c29f7010acfe3f25db9485bbd4b91897b6ad7ad547639252b4d56",
      "aa217fe888e47007fa15edab33c2b492a722cb106c64667fc2b044444de66bbb",
    ]);
  });

  it.each(roots.map((root, size) => [size, root] as const))(
    "has the expected root for %i leaves",
    (size, root) => {
      expect(rootAt(hashes, size).toString("hex")).toBe(root);
    },
  );

  it.each([
    [0, 1, []],
    [0, 8, [node.leaf1, node.two3, node.four7]],
    [5, 8, [node.leaf4, node.six7, roots[4]]],
    [2, 3, [roots[2]]],
    [1, 5, [roots[1], node.two3, node.leaf4]],
  ])("proves the inclusion of leaf %i in a tree of %i leaves", (seq, size, path) => {
    expect(hex(proveInclusion(hashes, seq, size))).toEqual(path);
  });

  it.each([
    [1, 1, []],
    [1, 8, [node.leaf1, node.two3, node.four7]],
    [6, 8, [node.four5, node.six7, roots[4]]],
    [2, 5, [node.two3, node.leaf4]],
  ])("proves the consistency of %i with %i leaves", (oldSize, size, path) => {
    expect(hex(proveConsistency(hashes, oldSize, size))).toEqual(path);
  });
});

describe("Merkle trees of any size", () => {
  const leaves = numbered(1_300);
  const { hashes, edge } = buildTree(leaves);

  it("have the root that RFC 6962 defines, computed from stored hashes or updated with each new leaf", () => {
    for (const size of [1, 2, 3, 255, 256, 257, 511, 512, 513, 1_000, 1_024, 1_299, 1_300]) {
      const root = computeRootByDefinition(leaves.slice(0, size));
      expect(rootAt(hashes, size).equals(root)).toBe(true);
      expect(buildTree(leaves.slice(0, size)).edge.root().equals(root)).toBe(true);
      const grown = edgeAt(hashes, size);
      for (const leaf of leaves.slice(size)) grown.add(leaf);
      expect(grown.root().equals(edge.root())).toBe(true);
    }
  });

  it("prove the inclusion of each leaf, and of no other leaf", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 1_300 }),
        fc.nat(),
        fc.nat(),
        fc.nat(),
        (size, place, otherPlace, bit) => {
          const [seq, other] = [place % size, otherPlace % 1_300];
          const root = rootAt(hashes, size);
          const proof = proveInclusion(hashes, seq, size);
          const leaf = leaves[seq] ?? Buffer.alloc(0);
          const holds = (change: Partial<Parameters<typeof verifyInclusion>[0]>) =>
            verifyInclusion({ leaf, seq, size, proof, root, ...change });
          expect(proof.length).toBeLessThanOrEqual(Math.ceil(Math.log2(size)));
          expect(holds({})).toBe(true);
          if (other !== seq) expect(holds({ leaf: leaves[other] ?? leaf })).toBe(false);
          if (other !== seq && other < size) expect(holds({ seq: other })).toBe(false);
          expect(holds({ proof: [...proof, root] })).toBe(false);
          if (proof.length === 0) return;
          expect(holds({ proof: proof.slice(1) })).toBe(false);
          const index = bit % proof.length;
          const flipped = Buffer.from(proof[index] ?? root);
          flipped[bit % 32] = (flipped[bit % 32] ?? 0) ^ (1 << (bit % 8));
          expect(holds({ proof: proof.with(index, flipped) })).toBe(false);
        },
      ),
    );
  });

  it("prove consistency with each earlier size, and with no other tree", () => {
    const forged = buildTree([hashLeaf("another"), ...leaves.slice(1)]).hashes;
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1_300 }), fc.nat(), (size, part) => {
        const oldSize = 1 + (part % size);
        const proof = proveConsistency(hashes, oldSize, size);
        const [root, oldRoot] = [rootAt(hashes, size), rootAt(hashes, oldSize)];
        const holds = (change: Partial<Parameters<typeof verifyConsistency>[0]>) =>
          verifyConsistency({ oldSize, oldRoot, size, root, proof, ...change });
        expect(holds({})).toBe(true);
        expect(holds({ oldRoot: rootAt(forged, oldSize) })).toBe(false);
        expect(holds({ root: rootAt(forged, size) })).toBe(false);
        expect(holds({ proof: [...proof, root] })).toBe(false);
        if (proof.length > 0) expect(holds({ proof: proof.slice(1) })).toBe(false);
      }),
    );
  });
});
