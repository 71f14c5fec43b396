import {
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  type Node,
  type Pair,
  type Scalar,
} from "yaml";
import { formatPointer } from "./json-pointer.ts";
import { forbiddenKeys } from "./plain-value.ts";

/** A document's value, and where in the text everything of it stands. */
export interface YamlTree {
  readonly value: unknown;
  /** JSON Pointer to the offset of the key (or list entry) that it names. */
  readonly offsets: ReadonlyMap<string, number>;
  readonly problems: readonly { readonly offset: number; readonly message: string }[];
}

/** Beyond any hand-written file; a document with more is an attack on whoever expands them. */
const ALIASES_MAX = 1000;

/**
 * Reads a composed document into plain values. Done here and not by `toJS`, whose time grows with
 * the square of the aliases and which has no positions for duplicate keys. An alias shares its
 * anchor's value, so this stays linear in the text; its size once expanded is the caller's check.
 */
export function readYamlTree(document: Document): YamlTree {
  const offsets = new Map<string, number>();
  const problems: { offset: number; message: string }[] = [];
  const anchors = new Map<string, { value: unknown; open: boolean }>();
  let aliases = 0;

  const problem = (node: Node | null, message: string) => {
    problems.push({ offset: getOffset(node), message });
  };

  const read = (node: Node | null, path: readonly string[]): unknown => {
    if (node === null) return null;
    if (isAlias(node)) {
      aliases += 1;
      const anchor = anchors.get(node.source);
      if (aliases === ALIASES_MAX + 1) problem(node, `more than ${ALIASES_MAX} aliases`);
      if (!anchor) problem(node, `there is no anchor &${node.source} before this alias`);
      if (anchor?.open) problem(node, `the alias *${node.source} would hold itself`);
      return anchor?.open ? null : anchor?.value;
    }
    const anchor = { value: null as unknown, open: true };
    const name = "anchor" in node ? node.anchor : undefined;
    if (name !== undefined) anchors.set(name, anchor);
    if (isMap<Node, Node | null>(node)) anchor.value = readMap(node.items, path);
    else if (isSeq<Node | null>(node)) {
      anchor.value = node.items.map((item, index) => {
        const at = [...path, String(index)];
        offsets.set(formatPointer(at), getOffset(item) || getOffset(node));
        return read(item, at);
      });
    } else if (isScalar(node)) {
      if (losesText(node, path)) {
        problem(
          node,
          "YAML reads this as a number or a truth value, which would change its text; put it in quotes",
        );
      }
      anchor.value = node.value;
    }
    anchor.open = false;
    return anchor.value;
  };

  const readMap = (
    items: readonly Pair<Node, Node | null>[],
    path: readonly string[],
  ): Record<string, unknown> => {
    const result: Record<string, unknown> = {};
    const seen = new Set<string>();
    for (const { key, value } of items) {
      const name = isScalar(key) && typeof key.value === "string" ? key.value : undefined;
      if (name === undefined) {
        problem(key, "a key has to be plain text");
        continue;
      }
      if (forbiddenKeys.has(name)) {
        problem(key, `the key "${name}" is not allowed`);
        continue;
      }
      if (seen.has(name)) {
        problem(key, `the key "${name}" is there twice`);
        continue;
      }
      seen.add(name);
      const at = [...path, name];
      offsets.set(formatPointer(at), getOffset(key));
      result[name] = read(value, at);
    }
    return result;
  };

  const contents = document.contents;
  offsets.set("", getOffset(contents));
  return { value: read(contents, []), offsets, problems };
}

function getOffset(node: Node | null): number {
  return node?.range?.[0] ?? 0;
}

/**
 * A variable's value reaches the container as text: `1.10` would arrive as 1.1, `0x1F` as 31 and
 * `True` as true. Whoever wrote it meant what they wrote.
 */
function losesText(node: Scalar, path: readonly string[]): boolean {
  const isVariable = path.length === 3 && path[0] === "spec" && path[1] === "env";
  const { value } = node;
  if (!isVariable || (typeof value !== "number" && typeof value !== "boolean")) return false;
  return node.source !== undefined && node.source !== String(value);
}
