import type { RegexNode } from "./regex-syntax.ts";

/**
 * Takes out what `^` says once more where the text is known to begin, so that it does not stand inside of a
 * lookahead: `^(?!^x)y` is `^(?!x)y`. Pydantic writes so for decimal numbers.
 */
export function withoutRepeatedStart(root: RegexNode): RegexNode {
  if (root.kind === "choice") {
    return { ...root, options: root.options.map((option) => withoutRepeatedStart(option)) };
  }
  if (root.kind !== "sequence") return root;
  const [first, ...others] = root.items;
  return first?.kind === "start" ? { ...root, items: [first, ...atStart(others)] } : root;
}

/** What follows the beginning of a text, up to the first item that may read something. */
function atStart(items: readonly RegexNode[]): readonly RegexNode[] {
  const [first, ...others] = items;
  if (first === undefined) return [];
  if (first.kind === "start") return atStart(others);
  if (first.kind === "ahead") return [startless(first), ...atStart(others)];
  return [startless(first), ...others];
}

function startless(node: RegexNode): RegexNode {
  switch (node.kind) {
    case "start":
      return { kind: "sequence", items: [] };
    case "sequence":
      return { ...node, items: atStart(node.items) };
    case "choice":
      return { ...node, options: node.options.map((option) => startless(option)) };
    case "ahead":
      return { ...node, item: startless(node.item) };
    default:
      return node;
  }
}
