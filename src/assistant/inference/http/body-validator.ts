import { Ajv2020, type ErrorObject, type ValidateFunction } from "ajv/dist/2020.js";
import type { Static, TSchema } from "typebox";
import { AssistantError } from "../../assistant-error.ts";

/**
 * The validation of the schemas themselves is off: they are constants, and compiling the meta-schema takes longer than
 * compiling any of them.
 */
const ajv = new Ajv2020({ strict: false, verbose: true, meta: false, validateSchema: false });

/**
 * Returns a function that validates a value against a schema and returns the value, typed as the schema describes. The
 * function throws AssistantError `invalid_request` with the parameter's name. `at` is the position of the value in the
 * request: `messages[2]`, or "" for the body.
 */
export function createValidator<Schema extends TSchema>(
  schema: Schema,
): (value: unknown, at: string) => Static<Schema> {
  // The schema is copied through JSON, because TypeBox adds its own symbols to schemas, which Ajv does not need.
  const plain: Record<string, unknown> = JSON.parse(JSON.stringify(schema));
  let validate: ValidateFunction<Static<Schema>> | undefined;
  return (value, at) => {
    validate ??= ajv.compile<Static<Schema>>(plain);
    if (validate(value)) return value;
    const error = validate.errors?.[0];
    throw error ? explainError(error, at) : invalidParamError(at, "is not valid");
  };
}

/**
 * Creates the error for an invalid parameter. The message begins with `param`, the parameter's name as the client
 * spells it.
 */
export function invalidParamError(param: string, what: string): AssistantError {
  return new AssistantError("invalid_request", `${param === "" ? "the body" : param} ${what}`, {
    param: param === "" ? undefined : param,
  });
}

function explainError(error: ErrorObject, at: string): AssistantError {
  const path = joinPointer(at, error.instancePath);
  const params: Readonly<Record<string, unknown>> = error.params;
  switch (error.keyword) {
    case "required":
      return invalidParamError(joinKey(path, String(params["missingProperty"])), "is required");
    case "type":
      return invalidParamError(
        path,
        `has to be ${describeExpectedTypes(params["type"])}, and is ${describeValueType(error.data)}`,
      );
    case "const":
      return invalidParamError(path, `has to be ${JSON.stringify(params["allowedValue"])}`);
    case "enum":
      return invalidParamError(path, `has to be one of ${formatList(params["allowedValues"])}`);
    case "minimum":
    case "exclusiveMinimum":
    case "maximum":
    case "exclusiveMaximum":
      return invalidParamError(
        path,
        `has to be ${String(params["comparison"])} ${String(params["limit"])}, and is ${String(error.data)}`,
      );
    case "minLength":
    case "minItems":
    case "minProperties":
      return invalidParamError(
        path,
        `has to have at least ${formatLimit(error.keyword, params["limit"])}`,
      );
    case "maxLength":
    case "maxItems":
    case "maxProperties":
      return invalidParamError(
        path,
        `may have at most ${formatLimit(error.keyword, params["limit"])}`,
      );
    case "pattern":
      return invalidParamError(path, `has to match ${String(params["pattern"])}`);
    default:
      return invalidParamError(path, error.message ?? "is not valid");
  }
}

/**
 * Appends a JSON pointer to a position: `/content/0/type` below `messages[2]` becomes `messages[2].content[0].type`.
 */
function joinPointer(at: string, pointer: string): string {
  let path = at;
  for (const token of pointer.split("/").slice(1)) {
    path = joinKey(path, token.replaceAll("~1", "/").replaceAll("~0", "~"));
  }
  return path;
}

function joinKey(path: string, key: string): string {
  if (/^\d+$/.test(key)) return `${path}[${key}]`;
  const name = /^[\w-]{1,64}$/.test(key) ? key : JSON.stringify(key.slice(0, 64));
  return path === "" ? name : `${path}.${name}`;
}

function describeExpectedTypes(type: unknown): string {
  const names = [type].flat().map((name) => withArticle(String(name)));
  return names.join(" or ");
}

/** Describes a value by its type, without quoting it. */
export function describeValueType(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "an array";
  if (typeof value === "number" && !Number.isInteger(value)) return String(value);
  return withArticle(typeof value);
}

function withArticle(name: string): string {
  if (name === "null") return name;
  return /^[aeio]/.test(name) ? `an ${name}` : `a ${name}`;
}

function formatLimit(keyword: string, limit: unknown): string {
  const unit = keyword.endsWith("Length")
    ? "character"
    : keyword.endsWith("Items")
      ? "item"
      : "member";
  return `${String(limit)} ${unit}${limit === 1 ? "" : "s"}`;
}

function formatList(values: unknown): string {
  return (Array.isArray(values) ? values : [values])
    .map((value) => JSON.stringify(value))
    .join(", ");
}
