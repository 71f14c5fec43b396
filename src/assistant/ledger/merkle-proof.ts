import {
  emptyRoot,
  findSplitPoint,
  fullSubtrees,
  hashFullSubtree,
  hashNode,
  TreeEdge,
} from "./merkle-tree.ts";

/**
 * Proofs of RFC 6962, sections 2.1.1 and 2.1.2, are computed from stored hashes. The database stores every leaf hash
 * and the root of each full subtree of 256, 256 ** 2, ... leaves. A tile has 2 ** TILE_HEIGHT such hashes. Roots in
 * between are computed from at most 128 stored hashes, so a proof reads O(log n) short ranges.
 */
export const TILE_HEIGHT = 8;
export const TILE_WIDTH = 256;

export interface TreeHashes {
  /**
   * Returns the roots of the full subtrees with the indexes `from` to `to - 1`, each over 256 ** `level` leaves. On
   * level 0 these are the leaf hashes.
   */
  read(level: number, from: number, to: number): readonly Buffer[];
}

/** Returns the root of the full subtree of `2 ** height` leaves from leaf `start`. */
function subtreeRoot(hashes: TreeHashes, start: number, height: number): Buffer {
  const level = Math.floor(height / TILE_HEIGHT);
  const width = TILE_WIDTH ** level;
  const from = start / width;
  return hashFullSubtree(hashes.read(level, from, from + 2 ** (height - level * TILE_HEIGHT)));
}

/**
 * Returns the root over the leaves `from` to `to - 1`. `from` must be a multiple of the size of the largest full
 * subtree in the range.
 */
function rangeRoot(hashes: TreeHashes, from: number, to: number): Buffer {
  const roots = fullSubtrees(to - from).map(({ start, height }) =>
    subtreeRoot(hashes, from + start, height),
  );
  return TreeEdge.fromSubtreeRoots(to - from, roots).root();
}

/** Returns the right edge of the Merkle tree over the first `size` leaves. */
export function edgeAt(hashes: TreeHashes, size: number): TreeEdge {
  const roots = fullSubtrees(size).map(({ start, height }) => subtreeRoot(hashes, start, height));
  return TreeEdge.fromSubtreeRoots(size, roots);
}

export function rootAt(hashes: TreeHashes, size: number): Buffer {
  return edgeAt(hashes, size).root();
}

/**
 * Returns the audit path of leaf `seq` in the tree over the first `size` leaves, from the leaf's sibling up to the
 * root's children.
 */
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

/**
 * Returns a proof that the trees over `oldSize` and `size` leaves have the same first `oldSize` leaves. The proof is
 * empty for equal sizes.
 */
export function proveConsistency(hashes: TreeHashes, oldSize: number, size: number): Buffer[] {
  if (oldSize < 0 || oldSize > size)
    throw new RangeError(`a tree of ${size} leaves has no earlier size ${oldSize}`);
  if (oldSize === 0 || oldSize === size) return [];
  const path: Buffer[] = [];
  let [from, to] = [0, size];
  // True while the range from `from` to `to` is a full subtree of the old tree. The verifier knows the root of such a
  // subtree.
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

/**
 * Verifies an audit path (RFC 9162, section 2.1.3.2). Returns true if the path leads from the leaf to the known root.
 */
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

/** Verifies a proof that the older tree is a prefix of the newer tree (RFC 9162, section 2.1.4.2). */
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
  // If the old tree is one full subtree, the proof omits the root of that tree, because the verifier knows it.
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
