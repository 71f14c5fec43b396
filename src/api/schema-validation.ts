import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { BerthError, InvalidSpecError, type SpecIssue } from "../base/errors.ts";
import { explainErrors } from "../resources/explain-errors.ts";
import { checkPlainValue } from "../resources/plain-value.ts";
import { formatIssue } from "../resources/validate-manifest.ts";
import { CreateAppBody } from "../resources/wire/apps.ts";
import { CreateSecretBody, PatchSecretBody, PutSecretBody } from "../resources/wire/resources.ts";

const common = {
  // Ajv need not validate the schemas themselves, because they are part of Berth and a test checks them.
  meta: false,
  validateSchema: false,
  allErrors: true,
  strict: false,
  verbose: true,
  useDefaults: false,
} as const;
const bodyAjv = new Ajv2020({ ...common, coerceTypes: false });
/** Converts texts to numbers and booleans, because all values in a URL are text. */
const parameterAjv = new Ajv2020({ ...common, coerceTypes: true });

export type HttpPart = "body" | "querystring" | "params" | "headers";

export type Validator = (value: unknown) => Validation;

interface Validation {
  readonly value?: unknown;
  readonly error?: Error;
}

/** Compiles a validator for one part of the requests of a route. Its errors name the field and the accepted values. */
export function compileValidator(schema: unknown, part: HttpPart): Validator {
  if (typeof schema !== "object" || schema === null) throw new TypeError("not a schema");
  const known = compiled.get(schema)?.get(part);
  if (known) return known;
  const validator = compile(schema, part);
  compiled.set(
    schema,
    (compiled.get(schema) ?? new Map<HttpPart, Validator>()).set(part, validator),
  );
  return validator;
}

/**
 * A cache of validators by schema and part of the request, because several routes, and all servers of a test run, use
 * equal schema objects.
 */
const compiled = new WeakMap<object, Map<HttpPart, Validator>>();

function compile(schema: object, part: HttpPart): Validator {
  const createError = createErrorFor(schema);
  // A copy through JSON drops the markers that TypeBox keeps on schemas, which a strict Ajv refuses.
  const plain: Record<string, unknown> = JSON.parse(JSON.stringify(schema));
  // The validator is compiled at the first request, because compiling all validators took a tenth of the time of a
  // server's start.
  let validate: ValidateFunction | undefined;
  return (value) => {
    if (part === "body") {
      if (value === null && !allowsNull(plain)) {
        return { error: new BerthError("invalid_request", "the request needs a JSON body") };
      }
      const unplain = checkPlainValue(value);
      if (unplain) return { error: new BerthError("invalid_request", formatIssue(unplain)) };
    }
    validate ??= (part === "body" ? bodyAjv : parameterAjv).compile(plain);
    if (validate(value)) return { value };
    const issues = explainErrors(validate.errors ?? [], "json");
    const text = issues.map((issue) => formatRequestIssue(issue)).join("; ");
    return { error: createError(`${partPrefixes[part]}${text}`) };
  };
}

/**
 * Formats an issue of a request. For an unknown key, the path ends before the key, because the message already contains
 * the key.
 */
function formatRequestIssue(issue: SpecIssue): string {
  if (!issue.message.startsWith("unknown key ")) return formatIssue(issue);
  const message = issue.message.replace(/; known keys: $/, "; no keys are allowed here");
  return formatIssue({ path: issue.path.replace(/\/[^/]*$/, ""), message });
}

const partPrefixes: Readonly<Record<HttpPart, string>> = {
  body: "",
  querystring: "in the query: ",
  params: "in the path: ",
  headers: "in the headers: ",
};

/**
 * Bodies whose fields are the fields of a spec. An invalid body gets the error code that the store returns for an
 * invalid spec.
 */
const specBodies: ReadonlySet<object> = new Set([
  CreateAppBody,
  CreateSecretBody,
  PutSecretBody,
  PatchSecretBody,
]);

function createErrorFor(schema: object): (message: string) => BerthError {
  return specBodies.has(schema)
    ? (message) => new InvalidSpecError(message, [])
    : (message) => new BerthError("invalid_request", message);
}

function allowsNull(schema: Readonly<Record<string, unknown>>): boolean {
  return Array.isArray(schema["type"]) && schema["type"].includes("null");
}
