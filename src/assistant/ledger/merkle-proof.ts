import {
  emptyRoot,
  findSplitPoint,
  fullSubtrees,
  hashFullSubtree,
  hashNode,
  TreeEdge,
} from "./merkle-tree.ts";

/**
 * Proofs of RFC 6962, sections 2.1.1 and 2.1.2, out of stored hashes. A tree keeps every leaf hash and
 * the root of each full subtree of 256, 256 ** 2 ... leaves: the rows of tiles. What lies between is
 * hashed anew from at most 128 of them, so a proof reads O(log n) short runs.
 */
export const TILE_HEIGHT = 8;
export const TILE_WIDTH = 256;

export interface TreeHashes {
  /** Roots of the full subtrees `from` up to `to`, which have 256 ** `level` leaves each. Level 0: leaves. */
  read(level: number, from: number, to: number): readonly Buffer[];
}

/** Root of the full subtree of `2 ** height` leaves from leaf `start`. */
function subtreeRoot(hashes: TreeHashes, start: number, height: number): Buffer {
  const level = Math.floor(height / TILE_HEIGHT);
  const width = TILE_WIDTH ** level;
  const from = start / width;
  return hashFullSubtree(hashes.read(level, from, from + 2 ** (height - level * TILE_HEIGHT)));
}

/** Root over the leaves `from` up to `to`, where `from` is where a subtree of that size could begin. */
function rangeRoot(hashes: TreeHashes, from: number, to: number): Buffer {
  const roots = fullSubtrees(to - from).map(({ start, height }) =>
    subtreeRoot(hashes, from + start, height),
  );
  return TreeEdge.fromSubtreeRoots(to - from, roots).root();
}

/** The right edge of the tree over the first `size` leaves. */
export function edgeAt(hashes: TreeHashes, size: number): TreeEdge {
  const roots = fullSubtrees(size).map(({ start, height }) => subtreeRoot(hashes, start, height));
  return TreeEdge.fromSubtreeRoots(size, roots);
}

export function rootAt(hashes: TreeHashes, size: number): Buffer {
  return edgeAt(hashes, size).root();
}

/** The audit path of leaf `seq` in the tree over the first `size` leaves; from the leaf's sibling up. */
export function proveInclusion(hashes: TreeHashes, seq: number, size: number): Buffer[] {
  if (seq < 0 || seq >= size) throw new RangeError(`there is no leaf ${seq} in a tree of ${size}`);
  const path: Buffer[] = [];
  let [from, to] = [0, size];
  while (to - from > 1) {
    const middle = from + findSplitPoint(to - from);
    const isLeft = seq < middle;
    path.push(isLeft ? rangeRoot(hashes, middle, to) : rangeRoot(hashes, from, middle));
    [from, to] = isLeft ? [from, middle] : [middle, to];
  }
  return path.toReversed();
}

/** That the tree over `size` leaves begins with that over `oldSize`. Empty where they are the same. */
export function proveConsistency(hashes: TreeHashes, oldSize: number, size: number): Buffer[] {
  if (oldSize < 0 || oldSize > size) throw new RangeError(`${oldSize} is past a tree of ${size}`);
  if (oldSize === 0 || oldSize === size) return [];
  const path: Buffer[] = [];
  let [from, to] = [0, size];
  // Whether what is left is a full subtree of the old tree that the verifier knows the root of.
  let isKnown = true;
  while (to !== oldSize) {
    const middle = from + findSplitPoint(to - from);
    if (oldSize <= middle) {
      path.push(rangeRoot(hashes, middle, to));
      to = middle;
    } else {
      path.push(rangeRoot(hashes, from, middle));
      from = middle;
      isKnown = false;
    }
  }
  if (!isKnown) path.push(rangeRoot(hashes, from, to));
  return path.toReversed();
}

/** As RFC 9162, section 2.1.3.2: the root that the proof leads to must be the one that is known. */
export function verifyInclusion(options: {
  readonly leaf: Buffer;
  readonly seq: number;
  readonly size: number;
  readonly proof: readonly Buffer[];
  readonly root: Buffer;
}): boolean {
  const { leaf, seq, size, proof, root } = options;
  if (seq < 0 || seq >= size) return false;
  let [at, last] = [seq, size - 1];
  let hashed = leaf;
  for (const sibling of proof) {
    if (last === 0) return false;
    if (at % 2 === 1 || at === last) {
      hashed = hashNode(sibling, hashed);
      while (at % 2 === 0 && at !== 0) [at, last] = [at / 2, Math.floor(last / 2)];
    } else {
      hashed = hashNode(hashed, sibling);
    }
    [at, last] = [Math.floor(at / 2), Math.floor(last / 2)];
  }
  return last === 0 && hashed.equals(root);
}

/** As RFC 9162, section 2.1.4.2. */
export function verifyConsistency(options: {
  readonly oldSize: number;
  readonly oldRoot: Buffer;
  readonly size: number;
  readonly root: Buffer;
  readonly proof: readonly Buffer[];
}): boolean {
  const { oldSize, oldRoot, size, root, proof } = options;
  if (oldSize > size || oldSize < 0) return false;
  if (oldSize === size) return proof.length === 0 && oldRoot.equals(root);
  if (oldSize === 0) return proof.length === 0 && oldRoot.equals(emptyRoot);
  // The old root itself opens the path where the old tree is one full subtree.
  const isFull = Number.isInteger(Math.log2(oldSize));
  const [first, ...rest] = isFull ? [oldRoot, ...proof] : proof;
  if (first === undefined) return false;
  let [at, last] = [oldSize - 1, size - 1];
  while (at % 2 === 1) [at, last] = [Math.floor(at / 2), Math.floor(last / 2)];
  let [oldHash, newHash] = [first, first];
  for (const sibling of rest) {
    if (last === 0) return false;
    if (at % 2 === 1 || at === last) {
      oldHash = hashNode(sibling, oldHash);
      newHash = hashNode(sibling, newHash);
      while (at % 2 === 0 && at !== 0) [at, last] = [at / 2, Math.floor(last / 2)];
    } else {
      newHash = hashNode(newHash, sibling);
    }
    [at, last] = [Math.floor(at / 2), Math.floor(last / 2)];
  }
  return last === 0 && oldHash.equals(oldRoot) && newHash.equals(root);
}
