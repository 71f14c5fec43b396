import type { NumberConstraints, StringConstraints } from "./scalar-constraints.ts";

/** Returns a key that is equal for the same constraints at different places in a schema. */
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
