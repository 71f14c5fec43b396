import { isObject, sameJson } from "./json.ts";
import { itemSchemas, propertySchemas } from "./members.ts";
import type { ArrayPart, ObjectPart, Part, Schemas } from "./part.ts";
import type { ShapeContext } from "./shape-context.ts";

/** Whether a value of `const` or `enum` is allowed by a part, as JSON Schema means it. */
export function valueMeets(shapes: ShapeContext, part: Part, value: unknown): boolean {
  switch (part.kind) {
    case "null":
      return value === null;
    case "boolean":
      return typeof value === "boolean";
    case "number":
      return typeof value === "number" && shapes.scalars.allowsNumber(part.constraints, value);
    case "string":
      return typeof value === "string" && shapes.scalars.allowsString(part.constraints, value);
    case "values":
      return part.values.some((entry) => sameJson(entry, value));
    case "array":
      return Array.isArray(value) && arrayMeets(shapes, part, value);
    default:
      return isObject(value) && objectMeets(shapes, part, value);
  }
}

export function meetsAll(shapes: ShapeContext, schemas: Schemas, value: unknown): boolean {
  return schemas.every((literal) =>
    shapes.of([literal]).some((part) => valueMeets(shapes, part, value)),
  );
}

function arrayMeets(shapes: ShapeContext, part: ArrayPart, value: readonly unknown[]): boolean {
  if (value.length < part.min || value.length > (part.max ?? value.length)) return false;
  if (part.unique && value.some((entry, index) => hasEqualBefore(value, entry, index)))
    return false;
  for (const { schemas, min, max } of part.contains) {
    const matching = value.filter((entry) => meetsAll(shapes, schemas, entry)).length;
    if (matching < min || matching > (max ?? matching)) return false;
  }
  return value.every((entry, index) => meetsAll(shapes, itemSchemas(part, index), entry));
}

function hasEqualBefore(list: readonly unknown[], entry: unknown, index: number): boolean {
  return list.slice(0, index).some((earlier) => sameJson(earlier, entry));
}

function objectMeets(
  shapes: ShapeContext,
  part: ObjectPart,
  value: Readonly<Record<string, unknown>>,
): boolean {
  const names = Object.keys(value);
  if (names.length < part.min || names.length > (part.max ?? names.length)) return false;
  if (part.required.some((name) => !Object.hasOwn(value, name))) return false;
  if (part.forbidden.some((name) => Object.hasOwn(value, name))) return false;
  return names.every(
    (name) =>
      meetsAll(shapes, part.names, name) &&
      meetsAll(shapes, propertySchemas(part, name, shapes.scalars), value[name]),
  );
}
