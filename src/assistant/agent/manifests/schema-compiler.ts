import { Ajv, type Options, type ValidateFunction } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";
import type { JsonObject } from "../port.ts";
import { argumentFormats } from "./argument-formats.ts";
import { type Dialect, getDialect, subschemas } from "./input-schema-keywords.ts";
import { compileLinearPattern } from "./linear-pattern.ts";
import { type FaultCollector, isObject } from "./manifest-faults.ts";

const ajvOptions: Options = {
  strict: true,
  // These three warn of styles, not of mistakes: published tools have them.
  strictTypes: false,
  strictTuples: false,
  strictRequired: false,
  allErrors: true,
  coerceTypes: false,
  useDefaults: false,
  removeAdditional: false,
  // A property named `constructor` is there only where the arguments have it.
  ownProperties: true,
  logger: false,
  formats: argumentFormats,
  code: {
    regExp: Object.assign((source: string) => compileLinearPattern(source), {
      code: "linearPattern",
    }),
  },
};

/** An instance takes milliseconds and its meta-schema more, so there is one for each draft. */
const instances: Partial<Record<Dialect, Ajv>> = {};

function getAjv(dialect: Dialect): Ajv {
  return (instances[dialect] ??=
    dialect === "draft-07" ? new Ajv(ajvOptions) : new Ajv2020(ajvOptions));
}

/** Ajv's own judgement of the schema, as far as nothing better has been said of the same place. */
export function checkMetaSchema(
  schema: JsonObject,
  dialect: Dialect,
  pointer: string,
  faults: FaultCollector,
): void {
  const ajv = getAjv(dialect);
  try {
    if (ajv.validateSchema(withoutDialect(schema)) === true) return;
  } catch {
    // Ajv compares lists by fast-deep-equal, which calls the member `valueOf` of what it compares.
    faults.error(pointer, 'holds a member "valueOf" or "toString" where Ajv cannot compare it');
    return;
  }
  for (const { instancePath, message } of ajv.errors ?? []) {
    const at = `${pointer}${instancePath}`;
    if (!faults.has(at)) faults.error(at, message ?? "is not valid");
  }
}

/** Compiles a schema that has been checked. Throws Error where Ajv refuses it all the same. */
export function compileInputSchema(schema: JsonObject): ValidateFunction {
  const dialect = getDialect(schema) ?? "2020-12";
  const ajv = getAjv(dialect);
  const plain = withoutExtensions(withoutDialect(schema), dialect);
  try {
    return ajv.compile(plain);
  } finally {
    // Ajv would keep each schema for ever.
    ajv.removeSchema(plain);
  }
}

/** The instance says which draft it is; under `http:` and without `#` Ajv does not know its name. */
function withoutDialect(schema: JsonObject): JsonObject {
  const { $schema: _, ...rest } = schema;
  return rest;
}

/** `x-…` is anybody's, and Ajv's strict mode takes it for a mistake. */
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
