import { isEqualJson, isObject } from "./json-values.ts";
import { getItemSchemas, getPropertySchemas } from "./member-schemas.ts";
import type {
  Alternative,
  ArrayAlternative,
  ObjectAlternative,
  SchemaConjunction,
} from "./normal-form.ts";
import type { NormalizerContext } from "./normalizer-context.ts";

/** Returns true if an alternative allows a value of `const` or `enum`. */
export function matchesAlternative(
  normalizer: NormalizerContext,
  part: Alternative,
  value: unknown,
): boolean {
  switch (part.kind) {
    case "null":
      return value === null;
    case "boolean":
      return typeof value === "boolean";
    case "number":
      return typeof value === "number" && normalizer.scalars.allowsNumber(part.constraints, value);
    case "string":
      return typeof value === "string" && normalizer.scalars.allowsString(part.constraints, value);
    case "values":
      return part.values.some((entry) => isEqualJson(entry, value));
    case "array":
      return Array.isArray(value) && matchesArray(normalizer, part, value);
    default:
      return isObject(value) && matchesObject(normalizer, part, value);
  }
}

export function matchesSchemas(
  normalizer: NormalizerContext,
  schemas: SchemaConjunction,
  value: unknown,
): boolean {
  return schemas.every((literal) =>
    normalizer.normalize([literal]).some((part) => matchesAlternative(normalizer, part, value)),
  );
}

function matchesArray(
  normalizer: NormalizerContext,
  part: ArrayAlternative,
  value: readonly unknown[],
): boolean {
  if (value.length < part.min || value.length > (part.max ?? value.length)) return false;
  if (part.unique && value.some((entry, index) => hasEqualBefore(value, entry, index)))
    return false;
  for (const { schemas, min, max } of part.contains) {
    const matching = value.filter((entry) => matchesSchemas(normalizer, schemas, entry)).length;
    if (matching < min || matching > (max ?? matching)) return false;
  }
  return value.every((entry, index) =>
    matchesSchemas(normalizer, getItemSchemas(part, index), entry),
  );
}

function hasEqualBefore(list: readonly unknown[], entry: unknown, index: number): boolean {
  return list.slice(0, index).some((earlier) => isEqualJson(earlier, entry));
}

function matchesObject(
  normalizer: NormalizerContext,
  part: ObjectAlternative,
  value: Readonly<Record<string, unknown>>,
): boolean {
  const names = Object.keys(value);
  if (names.length < part.min || names.length > (part.max ?? names.length)) return false;
  if (part.required.some((name) => !Object.hasOwn(value, name))) return false;
  if (part.forbidden.some((name) => Object.hasOwn(value, name))) return false;
  return names.every(
    (name) =>
      matchesSchemas(normalizer, part.names, name) &&
      matchesSchemas(normalizer, getPropertySchemas(part, name, normalizer.scalars), value[name]),
  );
}
