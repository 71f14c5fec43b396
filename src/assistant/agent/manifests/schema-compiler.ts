import { Ajv, type Options, type ValidateFunction } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";
import { isObject } from "../../../base/json.ts";
import type { JsonObject } from "../port.ts";
import { argumentFormats } from "./argument-formats.ts";
import { type Dialect, getDialect, subschemas } from "./input-schema-keywords.ts";
import { compileLinearPattern } from "./linear-pattern.ts";
import { type FaultCollector } from "./manifest-faults.ts";

const ajvOptions: Options = {
  strict: true,
  // These three checks of Ajv's strict mode are off, because they concern style, and many published tools would fail
  // them.
  strictTypes: false,
  strictTuples: false,
  strictRequired: false,
  allErrors: true,
  coerceTypes: false,
  useDefaults: false,
  removeAdditional: false,
  // A property such as `constructor` counts only if the arguments themselves contain it, not if it is inherited.
  ownProperties: true,
  logger: false,
  formats: argumentFormats,
  code: {
    regExp: Object.assign((source: string) => compileLinearPattern(source), {
      code: "linearPattern",
    }),
  },
};

/**
 * Returns the Ajv instance that checks schemas of a draft. The instance compiles the draft's meta-schema, which takes
 * more than 100 milliseconds.
 */
const getChecker = memoizeByDialect(ajvOptions);
/**
 * Returns the Ajv instance that compiles schemas of a draft. It needs no meta-schema, because `checkMetaSchema` has
 * accepted the schemas.
 */
const getCompiler = memoizeByDialect({ ...ajvOptions, meta: false, validateSchema: false });

/** Creates at most one Ajv instance per draft, when it is first needed. */
function memoizeByDialect(options: Options): (dialect: Dialect) => Ajv {
  const instances: Partial<Record<Dialect, Ajv>> = {};
  return (dialect) =>
    (instances[dialect] ??= dialect === "draft-07" ? new Ajv(options) : new Ajv2020(options));
}

/** Adds the faults that Ajv finds in a schema, except at pointers that already have a fault. */
export function checkMetaSchema(
  schema: JsonObject,
  dialect: Dialect,
  pointer: string,
  faults: FaultCollector,
): void {
  const ajv = getChecker(dialect);
  try {
    if (ajv.validateSchema(withoutDialect(schema)) === true) return;
  } catch {
    // fast-deep-equal, with which Ajv compares values, threw: a value has a member `valueOf` that is not a function.
    faults.error(pointer, 'holds a member "valueOf" or "toString" where Ajv cannot compare it');
    return;
  }
  for (const { instancePath, message } of ajv.errors ?? []) {
    const at = `${pointer}${instancePath}`;
    if (!faults.has(at)) faults.error(at, message ?? "is not valid");
  }
}

/** Compiles a schema that passed `checkInputSchema`. Throws Error if Ajv rejects it nevertheless. */
export function compileInputSchema(schema: JsonObject): ValidateFunction {
  const dialect = getDialect(schema) ?? "2020-12";
  const ajv = getCompiler(dialect);
  const plain = withoutExtensions(withoutDialect(schema), dialect);
  try {
    return ajv.compile(plain);
  } finally {
    // Ajv would keep the schema in its cache, so it is removed from Ajv.
    ajv.removeSchema(plain);
  }
}

/**
 * Removes `$schema`. The chosen Ajv instance already determines the draft, and Ajv does not recognise a draft's name
 * with `http:` or without `#`.
 */
function withoutDialect(schema: JsonObject): JsonObject {
  const { $schema: _, ...rest } = schema;
  return rest;
}

/** Removes `x-…` keywords, which are common extensions that Ajv's strict mode rejects. */
function withoutExtensions(schema: JsonObject, dialect: Dialect): JsonObject {
  const copy = structuredClone(schema);
  const strip = (part: unknown): void => {
    if (!isObject(part)) return;
    for (const keyword of Object.keys(part)) {
      if (keyword.startsWith("x-")) Reflect.deleteProperty(part, keyword);
    }
    for (const below of subschemas(part, "", dialect)) strip(below.schema);
  };
  strip(copy);
  return copy;
}
