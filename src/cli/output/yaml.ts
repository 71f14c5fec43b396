import { stringify } from "yaml";

/** YAML without anchors, long lines unbroken: it is meant to be edited and applied again. */
export function toYaml(document: unknown): string {
  return stringify(document, { lineWidth: 0, aliasDuplicateObjects: false });
}
