import type { RegexNode } from "./regex-syntax.ts";

/**
 * Removes each `^` that only repeats the `^` at the start of a pattern, so that lookaheads contain no `^`: `^(?!^x)y`
 * becomes `^(?!x)y`. Pydantic writes such patterns for decimal numbers.
 */
export function removeRepeatedStart(root: RegexNode): RegexNode {
  if (root.kind === "choice") {
    return { ...root, options: root.options.map((option) => removeRepeatedStart(option)) };
  }
  if (root.kind !== "sequence") return root;
  const [first, ...others] = root.items;
  return first?.kind === "start"
    ? { ...root, items: [first, ...removeLeadingStarts(others)] }
    : root;
}

/**
 * Removes each `^` that comes after a leading `^` but before any character is read, because it is always true there.
 */
function removeLeadingStarts(items: readonly RegexNode[]): readonly RegexNode[] {
  const [first, ...others] = items;
  if (first === undefined) return [];
  if (first.kind === "start") return removeLeadingStarts(others);
  if (first.kind === "ahead") return [removeStart(first), ...removeLeadingStarts(others)];
  return [removeStart(first), ...others];
}

function removeStart(node: RegexNode): RegexNode {
  switch (node.kind) {
    case "start":
      return { kind: "sequence", items: [] };
    case "sequence":
      return { ...node, items: removeLeadingStarts(node.items) };
    case "choice":
      return { ...node, options: node.options.map((option) => removeStart(option)) };
    case "ahead":
      return { ...node, item: removeStart(node.item) };
    default:
      return node;
  }
}
