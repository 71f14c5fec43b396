import { getItemSchemas, getPropertySchemas } from "./member-schemas.ts";
import type { Alternative, SchemaConjunction } from "./normal-form.ts";
import type { NormalizerContext } from "./normalizer-context.ts";
import { RuleTable } from "./rule-table.ts";
import { matchesSchemas } from "./value-matching.ts";

/** The maximum depth to which objects and arrays are searched for contradictions. */
const SEARCH_DEPTH_MAX = 4;

/**
 * Returns true if the alternative certainly allows no value. Follows recursive schemas only a few levels,
 * because false is a safe answer for all callers.
 */
export function isUnsatisfiable(
  normalizer: NormalizerContext,
  alternative: Alternative,
  depth = SEARCH_DEPTH_MAX,
): boolean {
  switch (alternative.kind) {
    case "null":
    case "boolean":
      return false;
    case "values":
      return alternative.values.length === 0;
    case "number":
      return (
        normalizer.scalars.compileNumber(alternative.constraints, new RuleTable()) === undefined
      );
    case "string":
      return normalizer.scalars.matchesNoString(alternative.constraints);
    case "array": {
      if (depth === 0) return false;
      // An array alternative allows no value if the schemas of one of its required items allow no value.
      const required = Math.min(alternative.min, 16);
      for (let index = 0; index < required; index += 1) {
        if (areUnsatisfiable(normalizer, getItemSchemas(alternative, index), depth - 1))
          return true;
      }
      return false;
    }
    default:
      return (
        depth > 0 &&
        alternative.required.some(
          (name) =>
            areUnsatisfiable(
              normalizer,
              getPropertySchemas(alternative, name, normalizer.scalars),
              depth - 1,
            ) || !matchesSchemas(normalizer, alternative.names, name),
        )
      );
  }
}

function areUnsatisfiable(
  normalizer: NormalizerContext,
  schemas: SchemaConjunction,
  depth: number,
): boolean {
  return (
    schemas.length > 0 &&
    normalizer
      .normalize(schemas)
      .every((alternative) => isUnsatisfiable(normalizer, alternative, depth))
  );
}
