import { getOwn, isObject } from "../../../base/json.ts";
import type { JsonObject } from "../port.ts";
import { resolvePointer } from "./json-pointer.ts";

/**
 * Limit on the subschemas visited in the search for one field: references may branch, and the schema may be
 * malformed.
 */
const VISITS_MAX = 1000;

/** The result of looking up a path of fields, such as that of `$result.note.id`, in a JSON Schema. */
export type FieldLookup =
  | { readonly state: "present"; readonly schema: unknown; readonly isRequired: boolean }
  /** The schema at this place of the path declares no properties, so an object may have a field of any name. */
  | { readonly state: "open" }
  | { readonly state: "absent"; readonly field: string; readonly known: readonly string[] };

/**
 * Looks up a path of field names in a JSON Schema. Follows `properties`, references and each branch of allOf, anyOf and
 * oneOf.
 */
export function findField(root: JsonObject, fields: readonly string[]): FieldLookup {
  let schema: unknown = root;
  let isRequired = true;
  for (const field of fields) {
    const known = collectProperties(schema, root);
    if (!known.has(field)) {
      return known.size === 0
        ? { state: "open" }
        : { state: "absent", field, known: [...known.keys()] };
    }
    isRequired &&= isRequiredIn(schema, field);
    schema = known.get(field);
  }
  return { state: "present", schema, isRequired };
}

/** Returns the properties named by a schema or by any of its subschemas in allOf, anyOf and oneOf. */
export function collectProperties(schema: unknown, root: JsonObject): ReadonlyMap<string, unknown> {
  const fields = new Map<string, unknown>();
  const queue: unknown[] = [schema];
  for (let visits = 0; queue.length > 0 && visits < VISITS_MAX; visits += 1) {
    const part = queue.shift();
    if (!isObject(part)) continue;
    const properties = getOwn(part, "properties");
    if (isObject(properties)) {
      for (const [name, value] of Object.entries(properties)) {
        if (!fields.has(name)) fields.set(name, value);
      }
    }
    for (const keyword of ["allOf", "anyOf", "oneOf"]) {
      const branches = getOwn(part, keyword);
      if (!Array.isArray(branches)) continue;
      for (const branch of branches) queue.push(branch);
    }
    const reference = getOwn(part, "$ref");
    if (typeof reference === "string" && reference.startsWith("#")) {
      queue.push(resolvePointer(root, reference.slice(1)));
    }
  }
  return fields;
}

function isRequiredIn(schema: unknown, field: string): boolean {
  const required = isObject(schema) ? getOwn(schema, "required") : undefined;
  return Array.isArray(required) && required.includes(field);
}
