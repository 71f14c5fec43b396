import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { InvalidSpecError, type SpecIssue } from "../base/errors.ts";
import { explainErrors } from "../resources/explain-errors.ts";
import { checkPlainValue } from "../resources/plain-value.ts";
import { formatIssue } from "../resources/validate-manifest.ts";

const common = { allErrors: true, strict: false, verbose: true, useDefaults: false } as const;
const bodyAjv = new Ajv2020({ ...common, coerceTypes: false });
/** Everything in a URL is text, so numbers and booleans have to be made of it. */
const parameterAjv = new Ajv2020({ ...common, coerceTypes: true });

export type HttpPart = "body" | "querystring" | "params" | "headers";

export type Validator = (value: unknown) => Validation;

interface Validation {
  readonly value?: unknown;
  readonly error?: Error;
}

/** A validator of one part of one route's requests, whose errors name the field and what it takes. */
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

/** Many routes share a schema, as do the servers of tests. */
const compiled = new WeakMap<object, Map<HttpPart, Validator>>();

function compile(schema: object, part: HttpPart): Validator {
  // Through JSON: TypeBox keeps marks of its own on schemas.
  const plain: Record<string, unknown> = JSON.parse(JSON.stringify(schema));
  // With the first request: compiling them all took a tenth of a server's start.
  let validate: ValidateFunction | undefined;
  return (value) => {
    if (part === "body") {
      if (value === null && !allowsNull(plain)) {
        return { error: createInvalidSpecError("this call needs a JSON body") };
      }
      const unplain = checkPlainValue(value);
      if (unplain)
        return { error: createInvalidSpecError(`${describePart(part)}${formatIssue(unplain)}`) };
    }
    validate ??= (part === "body" ? bodyAjv : parameterAjv).compile(plain);
    if (validate(value)) return { value };
    const issues = explainErrors(validate.errors ?? []);
    return {
      error: new InvalidSpecError(
        `${describePart(part)}${issues.map((issue) => formatRequestIssue(issue)).join("; ")}`,
        [],
      ),
    };
  };
}

/** The unknown key of an unknown-key message is in the message; it need not stand before it too. */
function formatRequestIssue(issue: SpecIssue): string {
  if (!issue.message.startsWith("unknown key ")) return formatIssue(issue);
  const message = issue.message.replace(/; known keys: $/, "; nothing is taken here");
  return formatIssue({ path: issue.path.replace(/\/[^/]*$/, ""), message });
}

function describePart(part: HttpPart): string {
  return part === "body" ? "" : part === "querystring" ? "in the query: " : "in the path: ";
}

function createInvalidSpecError(message: string): InvalidSpecError {
  return new InvalidSpecError(message, []);
}

function allowsNull(schema: Readonly<Record<string, unknown>>): boolean {
  return Array.isArray(schema["type"]) && schema["type"].includes("null");
}
