import { getItemSchemas, getPropertySchemas } from "./member-schemas.ts";
import type { Alternative, SchemaConjunction } from "./normal-form.ts";
import type { NormalizerContext } from "./normalizer-context.ts";
import { RuleTable } from "./rule-table.ts";
import { matchesSchemas } from "./value-matching.ts";

/** How far into objects and arrays a contradiction is looked for; beyond, a part counts as possible. */
const SEARCH_DEPTH_MAX = 4;

/**
 * True where it is certain that no value meets the part. Recursive schemas are followed a few levels
 * only: «not certain» is the safe answer wherever this is asked.
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
      // An item that cannot be, in a place that has to be filled.
      const looked = Math.min(part.min, 16);
      for (let index = 0; index < looked; index += 1) {
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
