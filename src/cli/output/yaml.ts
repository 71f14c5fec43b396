import { stringify } from "yaml";

/** Formats YAML for editing and applying again: without anchors, and without folded lines. */
export function toYaml(document: unknown): string {
  return stringify(document, { lineWidth: 0, aliasDuplicateObjects: false });
}
