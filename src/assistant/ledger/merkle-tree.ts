import { hash } from "node:crypto";

/**
 * The Merkle tree of RFC 6962, section 2.1, with sha256. A leaf is hashed with a prefix byte 0 and a pair of nodes with
 * a prefix byte 1, so that a leaf cannot be mistaken for a node. Hashes have 32 bytes.
 *
 * Sizes and indexes may exceed 32 bits, so nothing here uses bitwise operators.
 */

export const HASH_BYTES = 32;

/** The root of a tree without leaves. */
export const emptyRoot: Buffer = hashBytes("");

/** Hashes a leaf. A string is hashed as UTF-8. */
export function hashLeaf(entry: string | Uint8Array): Buffer {
  return hashBytes(typeof entry === "string" ? `\0${entry}` : Buffer.concat([Buffer.of(0), entry]));
}

/** Hashes a leaf like `hashLeaf`, and returns the hash in hexadecimal. */
export function hashLeafToHex(entry: string): string {
  return hash("sha256", `\0${entry}`, "hex");
}

/** Hashes bytes. Node.js makes a buffer from the hexadecimal text in a third of the time that it needs for a new buffer. */
function hashBytes(bytes: string | Uint8Array): Buffer {
  return Buffer.from(hash("sha256", bytes, "hex"), "hex");
}

const scratch = Buffer.alloc(1 + 2 * HASH_BYTES);
scratch[0] = 1;

export function hashNode(left: Uint8Array, right: Uint8Array): Buffer {
  if (left.length !== HASH_BYTES || right.length !== HASH_BYTES) {
    return hashBytes(Buffer.concat([Buffer.of(1), left, right]));
  }
  scratch.set(left, 1);
  scratch.set(right, 1 + HASH_BYTES);
  return hashBytes(scratch);
}

/** Returns the root of the full subtree over the given hashes. The number of hashes must be a power of two. */
export function hashFullSubtree(hashes: readonly Buffer[]): Buffer {
  let level = hashes;
  while (level.length > 1) {
    const next: Buffer[] = [];
    for (let at = 0; at < level.length; at += 2) {
      const [left, right] = [level[at], level[at + 1]];
      if (!left || !right)
        throw new RangeError("the number of leaves of a full subtree must be a power of two");
      next.push(hashNode(left, right));
    }
    level = next;
  }
  const [root] = level;
  if (root === undefined) throw new RangeError("a subtree has at least one leaf");
  return root;
}

/**
 * Returns the number of leaves in the left half of a tree: the largest power of two below `size`, which must be at
 * least 2.
 */
export function findSplitPoint(size: number): number {
  let split = 1;
  while (split * 2 < size) split *= 2;
  return split;
}

/** A full subtree of `2 ** height` leaves. `start`, the index of its first leaf, is a multiple of `2 ** height`. */
export interface FullSubtree {
  readonly start: number;
  readonly height: number;
}

/** Returns the full subtrees of a tree of `size` leaves, the largest first. */
export function fullSubtrees(size: number): FullSubtree[] {
  const found: FullSubtree[] = [];
  let start = 0;
  while (start < size) {
    const rest = size - start;
    const height = Math.floor(Math.log2(rest));
    found.push({ start, height });
    start += 2 ** height;
  }
  return found;
}

/** Called for each full subtree of height 1 or more that a new leaf completes. Smaller subtrees come first. */
export type OnSubtree = (height: number, index: number, hash: Buffer) => void;

/**
 * The right edge of a growing tree: the roots of its full subtrees, at most one for each bit of the tree's size. These
 * roots suffice to add a leaf and to compute the tree's root.
 */
export class TreeEdge {
  #size = 0;
  /**
   * The roots of the full subtrees by height. An item is undefined if the size of the tree has a zero bit at that
   * height.
   */
  readonly #roots: (Buffer | undefined)[] = [];

  /** Creates the right edge of a tree from the roots of its full subtrees, in the order of `fullSubtrees(size)`. */
  static fromSubtreeRoots(size: number, roots: readonly Buffer[]): TreeEdge {
    const edge = new TreeEdge();
    edge.#size = size;
    for (const [index, { height }] of fullSubtrees(size).entries()) {
      edge.#roots[height] = roots[index];
    }
    return edge;
  }

  get size(): number {
    return this.#size;
  }

  copy(): TreeEdge {
    const edge = new TreeEdge();
    edge.#size = this.#size;
    edge.#roots.push(...this.#roots);
    return edge;
  }

  add(leaf: Buffer, onSubtree?: OnSubtree): void {
    let hashed = leaf;
    let height = 0;
    for (let left = this.#roots[0]; left !== undefined; left = this.#roots[height]) {
      hashed = hashNode(left, hashed);
      this.#roots[height] = undefined;
      height += 1;
      onSubtree?.(height, Math.floor(this.#size / 2 ** height), hashed);
    }
    this.#roots[height] = hashed;
    this.#size += 1;
  }

  root(): Buffer {
    let root: Buffer | undefined;
    for (const left of this.#roots) {
      if (left !== undefined) root = root === undefined ? left : hashNode(left, root);
    }
    return root ?? emptyRoot;
  }
}
