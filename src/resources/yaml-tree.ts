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

/** The value of a document, with the positions of all its parts in the text. */
export interface YamlTree {
  readonly value: unknown;
  /** Offsets of keys and list entries by JSON Pointer. */
  readonly offsets: ReadonlyMap<string, number>;
  readonly problems: readonly { readonly offset: number; readonly message: string }[];
}

/**
 * The maximum number of aliases, more than any hand-written file has. A document with more is probably an attack on
 * programs that expand aliases.
 */
const ALIASES_MAX = 1000;

/**
 * Converts a composed document to plain values. The library's `toJS` takes quadratic time in the number of aliases,
 * and has no positions of duplicate keys. Here an alias shares the value of its anchor, so that the time is linear in
 * the length of the text. The caller checks the expanded size.
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
      // The name may be a password that lacks quotation marks, so it is not shown.
      if (!anchor)
        problem(
          node,
          'there is no anchor of this name before this alias; put a text that begins with "*" in quotes',
        );
      if (anchor?.open) problem(node, `the alias *${node.source} would contain itself`);
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
        problem(key, `the key "${name}" occurs twice`);
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
 * Returns true if parsing changes the text of a variable. The container gets a variable as text, so `1.10` would
 * become 1.1, `0x1F` would become 31, and `True` would become true.
 */
function losesText(node: Scalar, path: readonly string[]): boolean {
  const isVariable = path.length === 3 && path[0] === "spec" && path[1] === "env";
  const { value } = node;
  if (!isVariable || (typeof value !== "number" && typeof value !== "boolean")) return false;
  return node.source !== undefined && node.source !== String(value);
}
