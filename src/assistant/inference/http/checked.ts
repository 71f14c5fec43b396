import { Ajv2020, type ErrorObject, type ValidateFunction } from "ajv/dist/2020.js";
import type { Static, TSchema } from "typebox";
import { AssistantError } from "../../errors.ts";

/** The schemas are our own: the schema of schemas takes longer to compile than any of them. */
const ajv = new Ajv2020({ strict: false, verbose: true, meta: false, validateSchema: false });

/**
 * A check of one shape. Returns the value as that shape; throws AssistantError `invalid_request` that
 * names the parameter (`at` is where the value stands: `messages[2]`, or "" for the body).
 */
export function checked<Schema extends TSchema>(
  schema: Schema,
): (value: unknown, at: string) => Static<Schema> {
  // Through JSON: TypeBox keeps marks of its own on schemas.
  const plain: Record<string, unknown> = JSON.parse(JSON.stringify(schema));
  let validate: ValidateFunction<Static<Schema>> | undefined;
  return (value, at) => {
    validate ??= ajv.compile<Static<Schema>>(plain);
    if (validate(value)) return value;
    const error = validate.errors?.[0];
    throw error ? explained(error, at) : refused(at, "is not valid");
  };
}

/** `param` is what the client wrote; the message begins with it. */
export function refused(param: string, what: string): AssistantError {
  return new AssistantError("invalid_request", `${param === "" ? "the body" : param} ${what}`, {
    param: param === "" ? undefined : param,
  });
}

function explained(error: ErrorObject, at: string): AssistantError {
  const path = joined(at, error.instancePath);
  const params: Readonly<Record<string, unknown>> = error.params;
  switch (error.keyword) {
    case "required":
      return refused(childOf(path, String(params["missingProperty"])), "is required");
    case "type":
      return refused(path, `has to be ${typeName(params["type"])}, and is ${kindOf(error.data)}`);
    case "const":
      return refused(path, `has to be ${JSON.stringify(params["allowedValue"])}`);
    case "enum":
      return refused(path, `has to be one of ${listOf(params["allowedValues"])}`);
    case "minimum":
    case "exclusiveMinimum":
    case "maximum":
    case "exclusiveMaximum":
      return refused(
        path,
        `has to be ${String(params["comparison"])} ${String(params["limit"])}, and is ${String(error.data)}`,
      );
    case "minLength":
    case "minItems":
    case "minProperties":
      return refused(path, `has to have at least ${amount(error.keyword, params["limit"])}`);
    case "maxLength":
    case "maxItems":
    case "maxProperties":
      return refused(path, `may have at most ${amount(error.keyword, params["limit"])}`);
    case "pattern":
      return refused(path, `has to match ${String(params["pattern"])}`);
    default:
      return refused(path, error.message ?? "is not valid");
  }
}

/** `/content/0/type` below `messages[2]` is `messages[2].content[0].type`. */
function joined(at: string, pointer: string): string {
  let path = at;
  for (const token of pointer.split("/").slice(1)) {
    path = childOf(path, token.replaceAll("~1", "/").replaceAll("~0", "~"));
  }
  return path;
}

function childOf(path: string, key: string): string {
  if (/^\d+$/.test(key)) return `${path}[${key}]`;
  const name = /^[\w-]{1,64}$/.test(key) ? key : JSON.stringify(key.slice(0, 64));
  return path === "" ? name : `${path}.${name}`;
}

function typeName(type: unknown): string {
  const names = [type].flat().map((name) => withArticle(String(name)));
  return names.join(" or ");
}

/** What a value is, without saying the value. */
export function kindOf(value: unknown): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "an array";
  if (typeof value === "number" && !Number.isInteger(value)) return String(value);
  return withArticle(typeof value);
}

function withArticle(name: string): string {
  if (name === "null") return name;
  return /^[aeio]/.test(name) ? `an ${name}` : `a ${name}`;
}

function amount(keyword: string, limit: unknown): string {
  const unit = keyword.endsWith("Length")
    ? "character"
    : keyword.endsWith("Items")
      ? "item"
      : "member";
  return `${String(limit)} ${unit}${limit === 1 ? "" : "s"}`;
}

function listOf(values: unknown): string {
  return (Array.isArray(values) ? values : [values])
    .map((value) => JSON.stringify(value))
    .join(", ");
}
