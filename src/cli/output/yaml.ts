import { Document, isScalar, Scalar, visit } from "yaml";
import { hasUnsafeCharacters } from "../clean-output.ts";

/**
 * Formats YAML for editing and applying again: without anchors, and without folded lines. Text with control or other
 * unsafe characters is put in double quotes, because Berth prints these characters as escapes, and YAML reads escapes
 * only in double quotes.
 */
export function toYaml(document: unknown): string {
  const yaml = new Document(document, { aliasDuplicateObjects: false });
  visit(yaml, (_key, node) => {
    if (isScalar(node) && typeof node.value === "string" && hasUnsafeCharacters(node.value))
      node.type = Scalar.QUOTE_DOUBLE;
  });
  return yaml.toString({ lineWidth: 0 });
}
