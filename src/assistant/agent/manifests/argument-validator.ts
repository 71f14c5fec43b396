import type { ErrorObject } from "ajv";
import { formatSuggestion } from "../../../base/spelling-suggestions.ts";
import type { ArgumentError, JsonObject } from "../port.ts";
import { pointerBelow, resolvePointer } from "./json-pointer.ts";
import { getOwn, isObject, quoteValue } from "./manifest-faults.ts";
import { compileInputSchema } from "./schema-compiler.ts";

/** Says what is wrong with arguments, at most 20 things; empty where they are valid. */
export type ArgumentValidator = (args: JsonObject) => readonly ArgumentError[];

const ERRORS_MAX = 20;
/** Of a megabyte of wrong items there is one for each; more than this nobody puts into words. */
const DESCRIBED_MAX = 10 * ERRORS_MAX;

/**
 * Ajv's judgement by a tool's input schema: strict, without coercion, defaults or remote references, and in
 * time in proportion to the arguments. Compiling takes about a millisecond, so keep it for the declaration's
 * digest. `schema` is one that `checkInputSchema` has taken; of others it throws Error.
 */
export function createArgumentValidator(schema: JsonObject): ArgumentValidator {
  const validate = compileInputSchema(schema);
  return (args) => {
    try {
      if (validate(args)) return [];
    } catch {
      // fast-deep-equal calls the member `valueOf` of what it compares with an enum or a const.
      return [{ path: "", message: 'holds a member "valueOf" or "toString" that is not taken' }];
    }
    const errors = (validate.errors ?? [])
      .slice(0, DESCRIBED_MAX)
      .map((error) => toArgumentError(error, schema));
    // It would keep them all until the next arguments come.
    validate.errors = null;
    // One for each place and word: branches of an anyOf say the same again.
    const unique = new Map(errors.map((error) => [`${error.path}\n${error.message}`, error]));
    return [...unique.values()].slice(0, ERRORS_MAX);
  };
}

function toArgumentError(error: ErrorObject, schema: JsonObject): ArgumentError {
  const { instancePath: path, keyword, params, message = "is not valid" } = error;
  switch (keyword) {
    case "required":
      return { path: pointerBelow(path, String(params["missingProperty"])), message: "is missing" };
    case "additionalProperties":
    case "unevaluatedProperties": {
      const name = String(params["additionalProperty"] ?? params["unevaluatedProperty"]);
      return {
        path: pointerBelow(path, name),
        message: `is no argument that the tool takes${formatSuggestion(name, listKnownNames(error, schema))}`,
      };
    }
    case "enum": {
      const values: unknown = params["allowedValues"];
      const shown = Array.isArray(values)
        ? values.slice(0, 20).map((one) => JSON.stringify(one))
        : [];
      return { path, message: `must be one of ${shown.join(", ")}` };
    }
    case "const":
      return { path, message: `must be ${JSON.stringify(params["allowedValue"])}` };
    case "format":
      return { path, message: `must be of the format ${quoteValue(String(params["format"]))}` };
    default:
      return { path, message };
  }
}

function listKnownNames(error: ErrorObject, schema: JsonObject): readonly string[] {
  const parent = resolvePointer(schema, error.schemaPath.replace(/^#/, "").replace(/\/[^/]*$/, ""));
  const properties = isObject(parent) ? getOwn(parent, "properties") : undefined;
  return isObject(properties) ? Object.keys(properties) : [];
}
