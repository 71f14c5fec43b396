import { getItemSchemas, getPropertySchemas } from "./member-schemas.ts";
import type { Alternative, SchemaConjunction } from "./normal-form.ts";
import type { NormalizerContext } from "./normalizer-context.ts";
import { RuleTable } from "./rule-table.ts";
import { matchesSchemas } from "./value-matching.ts";

/** How deep contradictions are searched in objects and arrays; deeper ones are not found. */
const SEARCH_DEPTH_MAX = 4;

/**
 * Returns true if the alternative certainly allows no value. Follows recursive schemas only a few levels,
 * because false is a safe answer for all callers.
 */
export function isUnsatisfiable(
  normalizer: NormalizerContext,
  part: Alternative,
  depth = SEARCH_DEPTH_MAX,
): boolean {
  switch (part.kind) {
    case "null":
    case "boolean":
      return false;
    case "values":
      return part.values.length === 0;
    case "number":
      return normalizer.scalars.compileNumber(part.constraints, new RuleTable()) === undefined;
    case "string":
      return normalizer.scalars.matchesNoString(part.constraints);
    case "array": {
      if (depth === 0) return false;
      // A required item that no value can satisfy.
      const required = Math.min(part.min, 16);
      for (let index = 0; index < required; index += 1) {
        if (areUnsatisfiable(normalizer, getItemSchemas(part, index), depth - 1)) return true;
      }
      return false;
    }
    default:
      return (
        depth > 0 &&
        part.required.some(
          (name) =>
            areUnsatisfiable(
              normalizer,
              getPropertySchemas(part, name, normalizer.scalars),
              depth - 1,
            ) || !matchesSchemas(normalizer, part.names, name),
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
    normalizer.normalize(schemas).every((part) => isUnsatisfiable(normalizer, part, depth))
  );
}
