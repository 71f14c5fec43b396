import type { RegexNode } from "./regex-syntax.ts";

/**
 * Takes out what `^` says once more where the text is known to begin, so that it does not stand inside of a
 * lookahead: `^(?!^x)y` is `^(?!x)y`. Pydantic writes so for decimal numbers.
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

/** What follows the beginning of a text, up to the first item that may read something. */
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
