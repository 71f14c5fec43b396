import { hash } from "node:crypto";

/**
 * The Merkle tree of RFC 6962, section 2.1, over sha256: a leaf is hashed with the byte 0 before it,
 * two nodes with the byte 1, so that no leaf can pass for a node. Hashes are 32 bytes.
 *
 * Sizes and places are plain numbers, so arithmetic here never uses the 32-bit operators.
 */

export const HASH_BYTES = 32;

/** Root of the tree without leaves. */
export const emptyRoot: Buffer = hash("sha256", "", "buffer");

/** `entry` is hashed as UTF-8. */
export function hashLeaf(entry: string | Uint8Array): Buffer {
  if (typeof entry === "string") return hash("sha256", `\0${entry}`, "buffer");
  return hash("sha256", Buffer.concat([Buffer.of(0), entry]), "buffer");
}

const scratch = Buffer.alloc(1 + 2 * HASH_BYTES);
scratch[0] = 1;

export function hashNode(left: Uint8Array, right: Uint8Array): Buffer {
  if (left.length !== HASH_BYTES || right.length !== HASH_BYTES) {
    return hash("sha256", Buffer.concat([Buffer.of(1), left, right]), "buffer");
  }
  scratch.set(left, 1);
  scratch.set(right, 1 + HASH_BYTES);
  return hash("sha256", scratch, "buffer");
}

/** Root of the full subtree over these hashes. Their number must be a power of two. */
export function hashFullSubtree(hashes: readonly Buffer[]): Buffer {
  let level = hashes;
  while (level.length > 1) {
    const next: Buffer[] = [];
    for (let at = 0; at < level.length; at += 2) {
      const [left, right] = [level[at], level[at + 1]];
      if (!left || !right) throw new RangeError("a full subtree has a power of two of leaves");
      next.push(hashNode(left, right));
    }
    level = next;
  }
  const [root] = level;
  if (root === undefined) throw new RangeError("a subtree has at least one leaf");
  return root;
}

/** The largest power of two that is smaller than `size`; `size` is 2 or more. */
export function findSplitPoint(size: number): number {
  let split = 1;
  while (split * 2 < size) split *= 2;
  return split;
}

/** A full subtree: `2 ** height` leaves, from leaf `start`, which is a multiple of that. */
export interface FullSubtree {
  readonly start: number;
  readonly height: number;
}

/** The full subtrees that a tree of `size` leaves consists of, the largest first. */
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

/** Told of each full subtree that a new leaf completes, the smallest first; height 1 or more. */
export type OnSubtree = (height: number, index: number, hash: Buffer) => void;

/**
 * The right edge of a growing tree: the roots of its full subtrees, which is all that a new leaf and
 * a new root need. Holds at most one hash for each bit of the size.
 */
export class TreeEdge {
  #size = 0;
  /** By height; undefined where the size has a zero bit. */
  readonly #roots: (Buffer | undefined)[] = [];

  /** That of a tree whose full subtrees have these roots, in the order of `fullSubtrees(size)`. */
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

  /** Independent of this one. */
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
