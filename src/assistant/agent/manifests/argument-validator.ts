import type { ErrorObject } from "ajv";
import { getOwn, isObject } from "../../../base/json.ts";
import { formatSuggestion } from "../../../base/spelling-suggestions.ts";
import type { ArgumentError, JsonObject } from "../port.ts";
import { pointerBelow, resolvePointer } from "./json-pointer.ts";
import { quoteValue } from "./manifest-faults.ts";
import { compileInputSchema } from "./schema-compiler.ts";

/** Returns at most 20 errors in the arguments; an empty list if the arguments are valid. */
export type ArgumentValidator = (args: JsonObject) => readonly ArgumentError[];

const ERRORS_MAX = 20;
/**
 * At most this number of errors is turned into messages, because a list of a million wrong items has a million errors.
 */
const DESCRIBED_MAX = 10 * ERRORS_MAX;

/**
 * Compiles a tool's input schema to a validator: strict, without coercion, defaults or remote references, and linear
 * in the size of the arguments. Compiling takes about a millisecond, so callers cache the validator by the
 * declaration's digest. `schema` must have passed `checkInputSchema`; otherwise the function may throw Error.
 */
export function createArgumentValidator(schema: JsonObject): ArgumentValidator {
  const validate = compileInputSchema(schema);
  return (args) => {
    try {
      if (validate(args)) return [];
    } catch {
      // fast-deep-equal threw: a value that it compared with an enum or a const has a member `valueOf` that is not a
      // function.
      return [
        { path: "", message: 'holds a member "valueOf" or "toString", which is not allowed' },
      ];
    }
    const errors = (validate.errors ?? [])
      .slice(0, DESCRIBED_MAX)
      .map((error) => toArgumentError(error, schema));
    // The errors are cleared, because Ajv would keep all of them in memory until the next validation.
    validate.errors = null;
    // Duplicates are removed, because the branches of an anyOf often report the same error at the same place.
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
        message: `is not an argument of this tool${formatSuggestion(name, listKnownNames(error, schema))}`,
      };
    }
    case "type":
      return { path, message, types: [params["type"]].flat().map(String) };
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
      return { path, message: `must have the format ${quoteValue(String(params["format"]))}` };
    default:
      return { path, message };
  }
}

function listKnownNames(error: ErrorObject, schema: JsonObject): readonly string[] {
  const parent = resolvePointer(schema, error.schemaPath.replace(/^#/, "").replace(/\/[^/]*$/, ""));
  const properties = isObject(parent) ? getOwn(parent, "properties") : undefined;
  return isObject(properties) ? Object.keys(properties) : [];
}
