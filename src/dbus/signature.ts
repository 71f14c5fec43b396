/** A parsed signature: `a{sv}` is a tree of type a with a child {, whose children are s and v. */
export interface TypeTree {
  readonly type: string;
  readonly child: readonly TypeTree[];
}

const BASIC_TYPES = "ybnqiuxtdsogh";
/** The D-Bus limits for signatures. */
const LENGTH_MAX = 255;
const DEPTH_MAX = 64;
/** Signatures come from a few interfaces, but callers choose those of variants, so the number of kept ones is bounded. */
const CACHED_MAX = 256;

const cached = new Map<string, readonly TypeTree[]>();

/** Parses a D-Bus signature. Throws TypeError if the text is not a signature. */
export function parseSignature(signature: string): readonly TypeTree[] {
  const known = cached.get(signature);
  if (known) return known;
  if (signature.length > LENGTH_MAX) throw invalidError(signature);
  const trees = new SignatureParser(signature).parseAll();
  if (cached.size >= CACHED_MAX) cached.clear();
  cached.set(signature, trees);
  return trees;
}

export function formatSignature(tree: TypeTree): string {
  const inner = tree.child.map((child) => formatSignature(child)).join("");
  if (tree.type === "(") return `(${inner})`;
  return tree.type === "{" ? `{${inner}}` : `${tree.type}${inner}`;
}

/** Returns the type at this index of a type's children. */
export function getChild(tree: TypeTree, index: number): TypeTree {
  const child = tree.child[index];
  if (!child)
    throw new TypeError(`there is no type for the value ${index} of ${formatSignature(tree)}`);
  return child;
}

class SignatureParser {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  parseAll(): readonly TypeTree[] {
    const trees: TypeTree[] = [];
    while (this.#at < this.#text.length) trees.push(this.#parseOne(0));
    return trees;
  }

  #parseOne(depth: number): TypeTree {
    const type = this.#text[this.#at] ?? "";
    this.#at += 1;
    if (type === "v" || (type !== "" && BASIC_TYPES.includes(type))) return { type, child: [] };
    if (depth >= DEPTH_MAX) throw invalidError(this.#text);
    if (type === "a") {
      const isDictionary = this.#text[this.#at] === "{";
      return {
        type,
        child: [isDictionary ? this.#parseEntry(depth + 1) : this.#parseOne(depth + 1)],
      };
    }
    if (type !== "(") throw invalidError(this.#text);
    const child = this.#parseUntil(")", depth + 1);
    if (child.length === 0) throw invalidError(this.#text);
    return { type, child };
  }

  #parseEntry(depth: number): TypeTree {
    this.#at += 1;
    const child = this.#parseUntil("}", depth);
    if (child.length !== 2 || !BASIC_TYPES.includes(child[0]?.type ?? "v"))
      throw invalidError(this.#text);
    return { type: "{", child };
  }

  #parseUntil(end: string, depth: number): TypeTree[] {
    const child: TypeTree[] = [];
    while (this.#text[this.#at] !== end) child.push(this.#parseOne(depth));
    this.#at += 1;
    return child;
  }
}

function invalidError(signature: string): TypeError {
  return new TypeError(`"${signature.slice(0, LENGTH_MAX)}" is not a D-Bus signature`);
}
