import { itemSchemas, propertySchemas } from "./members.ts";
import type { Part, Schemas } from "./part.ts";
import { RuleTable } from "./rule-table.ts";
import type { ShapeContext } from "./shape-context.ts";
import { meetsAll } from "./value-meets.ts";

/** How far into objects and arrays a contradiction is looked for; beyond, a part counts as possible. */
const LOOK_DEPTH = 4;

/**
 * True where it is certain that no value meets the part. Recursive schemas are followed a few levels
 * only: «not certain» is the safe answer wherever this is asked.
 */
export function isNever(shapes: ShapeContext, part: Part, depth = LOOK_DEPTH): boolean {
  switch (part.kind) {
    case "null":
    case "boolean":
      return false;
    case "values":
      return part.values.length === 0;
    case "number":
      return shapes.scalars.number(part.constraints, new RuleTable()) === undefined;
    case "string":
      return shapes.scalars.noString(part.constraints);
    case "array": {
      if (depth === 0) return false;
      // An item that cannot be, in a place that has to be filled.
      const looked = Math.min(part.min, 16);
      for (let index = 0; index < looked; index += 1) {
        if (areNever(shapes, itemSchemas(part, index), depth - 1)) return true;
      }
      return false;
    }
    default:
      return (
        depth > 0 &&
        part.required.some(
          (name) =>
            areNever(shapes, propertySchemas(part, name, shapes.scalars), depth - 1) ||
            !meetsAll(shapes, part.names, name),
        )
      );
  }
}

function areNever(shapes: ShapeContext, schemas: Schemas, depth: number): boolean {
  return schemas.length > 0 && shapes.of(schemas).every((part) => isNever(shapes, part, depth));
}
