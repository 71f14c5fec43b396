import { isObject } from "../../../base/json.ts";
import { isEqualJson } from "./json-values.ts";
import { getItemSchemas, getPropertySchemas } from "./member-schemas.ts";
import type {
  Alternative,
  ArrayAlternative,
  ObjectAlternative,
  SchemaConjunction,
} from "./normal-form.ts";
import type { NormalizerContext } from "./normalizer-context.ts";

/** Returns true if an alternative of a normal form allows `value`, which comes from `const` or `enum`. */
export function matchesAlternative(
  normalizer: NormalizerContext,
  alternative: Alternative,
  value: unknown,
): boolean {
  switch (alternative.kind) {
    case "null":
      return value === null;
    case "boolean":
      return typeof value === "boolean";
    case "number":
      return (
        typeof value === "number" && normalizer.scalars.allowsNumber(alternative.constraints, value)
      );
    case "string":
      return (
        typeof value === "string" && normalizer.scalars.allowsString(alternative.constraints, value)
      );
    case "values":
      return alternative.values.some((entry) => isEqualJson(entry, value));
    case "array":
      return Array.isArray(value) && matchesArray(normalizer, alternative, value);
    default:
      return isObject(value) && matchesObject(normalizer, alternative, value);
  }
}

export function matchesSchemas(
  normalizer: NormalizerContext,
  schemas: SchemaConjunction,
  value: unknown,
): boolean {
  return schemas.every((literal) =>
    normalizer
      .normalize([literal])
      .some((alternative) => matchesAlternative(normalizer, alternative, value)),
  );
}

function matchesArray(
  normalizer: NormalizerContext,
  alternative: ArrayAlternative,
  value: readonly unknown[],
): boolean {
  if (value.length < alternative.min || value.length > (alternative.max ?? value.length))
    return false;
  if (alternative.unique && value.some((entry, index) => hasEqualBefore(value, entry, index)))
    return false;
  for (const { schemas, min, max } of alternative.contains) {
    const matching = value.filter((entry) => matchesSchemas(normalizer, schemas, entry)).length;
    if (matching < min || matching > (max ?? matching)) return false;
  }
  return value.every((entry, index) =>
    matchesSchemas(normalizer, getItemSchemas(alternative, index), entry),
  );
}

function hasEqualBefore(list: readonly unknown[], entry: unknown, index: number): boolean {
  return list.slice(0, index).some((earlier) => isEqualJson(earlier, entry));
}

function matchesObject(
  normalizer: NormalizerContext,
  alternative: ObjectAlternative,
  value: Readonly<Record<string, unknown>>,
): boolean {
  const names = Object.keys(value);
  if (names.length < alternative.min || names.length > (alternative.max ?? names.length))
    return false;
  if (alternative.required.some((name) => !Object.hasOwn(value, name))) return false;
  if (alternative.forbidden.some((name) => Object.hasOwn(value, name))) return false;
  return names.every(
    (name) =>
      matchesSchemas(normalizer, alternative.names, name) &&
      matchesSchemas(
        normalizer,
        getPropertySchemas(alternative, name, normalizer.scalars),
        value[name],
      ),
  );
}
