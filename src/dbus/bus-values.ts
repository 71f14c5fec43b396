import type { BusDictionary, BusValue, BusVariant } from "./port.ts";
import { parseSignature, type TypeTree } from "./signature.ts";

/** Returns every descriptor in the values, at any depth. */
export function findDescriptors(signature: string, values: readonly BusValue[]): number[] {
  const found = new Set<number>();
  const visit = (tree: TypeTree | undefined, value: BusValue | undefined): void => {
    if (tree === undefined || value === undefined) return;
    if (tree.type === "h" && typeof value === "number") found.add(value);
    else if (isList(value)) {
      value.forEach((item, index) => {
        visit(tree.type === "a" ? tree.child[0] : tree.child[index], item);
      });
    } else if (isDictionary(value)) {
      for (const item of value.values()) visit(parseSignature(item.signature)[0], item.value);
    } else if (isVariant(value)) visit(parseSignature(value.signature)[0], value.value);
  };
  if (!/[hv]/.test(signature)) return [];
  parseSignature(signature).forEach((tree, index) => {
    visit(tree, values[index]);
  });
  return [...found];
}

/** Returns the value if it is a string, otherwise "". */
export function toText(value: BusValue | undefined): string {
  return typeof value === "string" ? value : "";
}

export function isVariant(value: BusValue): value is BusVariant {
  return typeof value === "object" && "signature" in value && "value" in value;
}

export function isDictionary(value: BusValue | undefined): value is BusDictionary {
  return value instanceof Map;
}

export function isList(value: BusValue): value is readonly BusValue[] {
  return Array.isArray(value);
}

export function isObjectPath(value: BusValue): value is string {
  return typeof value === "string" && /^(\/|(\/[A-Za-z0-9_]+)+)$/.test(value);
}
