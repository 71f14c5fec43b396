import type { NumberConstraints, StringConstraints } from "./scalar-constraints.ts";

/** Equal for constraints that allow the same because they say the same, wherever they stand. */
export function getStringKey(constraints: StringConstraints): string {
  const { minLength, maxLength, patterns, forbiddenPatterns, formats, excluded } = constraints;
  const sources = [patterns, forbiddenPatterns, formats].map((list) =>
    list.map((entry) => entry.source),
  );
  return JSON.stringify([minLength ?? null, maxLength ?? null, sources, excluded]);
}

export function getNumberKey(constraints: NumberConstraints): string {
  const { integer, minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf } = constraints;
  const bounds = [minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf];
  return JSON.stringify([integer, bounds.map((bound) => bound ?? null)]);
}
