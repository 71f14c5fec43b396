import { Ajv2020 } from "ajv/dist/2020.js";
import type { FormatsPlugin } from "ajv-formats";
import ajvFormats from "ajv-formats";
import { isObject, own } from "./json.ts";
import { schemaPlaces } from "./schema-keywords.ts";

const SHOWN_MAX = 200;

/** Says what is wrong with a document, one line each; empty where it is valid. */
export type DocumentValidator = (document: unknown) => readonly string[];

/**
 * Ajv's judgement, made independently of the grammar. Throws where Ajv cannot make sense of the schema.
 * Runs patterns of the schema's author, so it belongs where it can be stopped.
 */
export function documentValidator(schema: unknown): DocumentValidator {
  const ajv = new Ajv2020({
    strict: false,
    // The schema has been through our own compiler, which is stricter than a meta-schema.
    validateSchema: false,
    meta: false,
    logger: false,
    // A property named `constructor` is there only where the document has it.
    ownProperties: true,
    multipleOfPrecision: 10,
    code: { regExp: Object.assign(lenientRegExp, { code: "lenientRegExp" }) },
  });
  addFormats(ajv);
  const modern = modernised(schema, isDraft4(schema));
  const validate = ajv.compile(typeof modern === "boolean" || isObject(modern) ? modern : {});
  return (document) => {
    if (validate(document)) return [];
    return (validate.errors ?? []).map(({ instancePath, message }) =>
      `${instancePath || "the document"} ${message ?? "is not valid"}`.slice(0, SHOWN_MAX),
    );
  };
}

/** The package is CommonJS: what its type calls the default export stands one level deeper in Node. */
function addFormats(ajv: Ajv2020): void {
  const plugin: FormatsPlugin | { readonly default: FormatsPlugin } = ajvFormats;
  const add = "default" in plugin ? plugin.default : plugin;
  add(ajv, { mode: "full" });
}

/** Patterns are meant with the flag `u`; those that are none with it are read as browsers would. */
function lenientRegExp(source: string, flags: string): RegExp {
  try {
    return new RegExp(source, flags);
  } catch {
    return new RegExp(source);
  }
}

function isDraft4(schema: unknown): boolean {
  const written = isObject(schema) ? own(schema, "$schema") : undefined;
  return typeof written === "string" && /draft-0?4/.test(written);
}

/** The same schema in the words of 2020-12, which Ajv takes without `$schema`. */
function modernised(schema: unknown, draft4: boolean): unknown {
  if (!isObject(schema)) return schema;
  const result: Record<string, unknown> = {};
  const put = (keyword: string, value: unknown) => {
    // Not by assignment, which `__proto__` would turn into something else.
    Object.defineProperty(result, keyword, { value, enumerable: true, configurable: true });
  };
  const inside = (value: unknown) => modernised(value, draft4);
  const tuple = Array.isArray(own(schema, "items"));
  for (const [keyword, value] of Object.entries(schema)) {
    const place = schemaPlaces.get(keyword);
    if (keyword === "$schema" || (keyword === "id" && !draft4)) continue;
    if (keyword === "nullable" && own(schema, "type") === undefined) continue;
    if (keyword === "id" || keyword === "$id") putId(put, value);
    else if (keyword === "items" && Array.isArray(value)) put("prefixItems", value.map(inside));
    else if (keyword === "additionalItems") {
      if (tuple) put("items", inside(value));
    } else if (keyword === "minimum" || keyword === "maximum") {
      const exclusive = keyword === "minimum" ? "exclusiveMinimum" : "exclusiveMaximum";
      put(own(schema, exclusive) === true ? exclusive : keyword, value);
    } else if (typeof value === "boolean" && /^exclusiveM(in|ax)imum$/.test(keyword)) continue;
    else if (keyword === "$ref" && typeof value === "string") put(keyword, modernPointer(value));
    else if (Array.isArray(value) && place !== undefined) put(keyword, value.map(inside));
    else if (place === "map" && isObject(value)) {
      put(
        keyword,
        Object.fromEntries(Object.entries(value).map(([name, entry]) => [name, inside(entry)])),
      );
    } else put(keyword, place === undefined ? value : inside(value));
  }
  return result;
}

/** Until draft 7, an `$id` of a fragment only was an anchor. */
function putId(put: (keyword: string, value: unknown) => void, value: unknown): void {
  if (typeof value === "string" && value.startsWith("#")) {
    if (value.length > 1) put("$anchor", value.slice(1));
  } else put("$id", value);
}

/** Tuples have moved; a pointer that is not helped by this leads to nothing, and Ajv says so. */
function modernPointer(reference: string): string {
  return reference.replaceAll(/\/items\/(?=\d+(\/|$))/g, "/prefixItems/");
}
