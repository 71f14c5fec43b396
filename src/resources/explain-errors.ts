import type { ErrorObject } from "ajv/dist/2020.js";
import type { SpecIssue } from "../base/errors.ts";
import { isObject } from "../base/json.ts";
import { findNearest, formatSuggestion } from "../base/spelling-suggestions.ts";
import {
  describeExpectation,
  describeValue,
  isObjectSchema,
  matchesType,
  type Schema,
  type Syntax,
} from "./describe-schema.ts";
import { formatPointer, parsePointer, shortenKey } from "./json-pointer.ts";

/** The maximum number of reported issues. Users fix the first issues first, and explaining more takes time. */
const ISSUES_MAX = 100;

/**
 * Converts Ajv's errors (allErrors, verbose) to one issue for each change that the user has to make. For a failed
 * union, the result is the issues of the branch that the user probably meant, or one issue that describes all
 * branches.
 */
export function explainErrors(
  errors: readonly ErrorObject[],
  syntax: Syntax = "yaml",
): SpecIssue[] {
  const unique = new Map<string, SpecIssue>();
  for (const issue of explainFailures(groupUnionErrors(errors).slice(0, ISSUES_MAX), syntax)) {
    unique.set(`${issue.path}\n${issue.message}`, issue);
  }
  return [...unique.values()].slice(0, ISSUES_MAX);
}

/** An error of Ajv. If the error is about a union, it includes the errors of the branches. */
interface SchemaFailure {
  readonly error: ErrorObject;
  readonly inside: readonly SchemaFailure[];
}

/** Groups the errors of the branches with the error of their union, which Ajv reports after them. */
function groupUnionErrors(errors: readonly ErrorObject[]): SchemaFailure[] {
  const failures: SchemaFailure[] = [];
  for (const error of errors) {
    let start = failures.length;
    if (error.keyword === "anyOf") {
      while (start > 0 && isInside(failures[start - 1]?.error, error)) start -= 1;
    }
    failures.push({ error, inside: failures.splice(start) });
  }
  return failures;
}

function isInside(error: ErrorObject | undefined, union: ErrorObject): boolean {
  return (
    error !== undefined &&
    error.schemaPath.startsWith(`${union.schemaPath}/`) &&
    (error.instancePath === union.instancePath ||
      error.instancePath.startsWith(`${union.instancePath}/`))
  );
}

function explainFailures(failures: readonly SchemaFailure[], syntax: Syntax): SpecIssue[] {
  const issues: SpecIssue[] = [];
  const misspelt = new Set<string>();
  for (const { error } of failures) {
    if (error.keyword !== "additionalProperties") continue;
    const key = String(error.params["additionalProperty"]);
    const { message, meant } = explainUnknownKey(error, key, syntax);
    if (meant !== undefined) misspelt.add(`${error.instancePath}\n${meant}`);
    issues.push({ path: error.instancePath + formatPointer([key]), message });
  }
  for (const failure of failures) {
    const { error } = failure;
    if (error.keyword === "additionalProperties") continue;
    if (error.keyword === "anyOf") {
      issues.push(...explainUnion(failure, syntax));
    } else if (error.keyword === "required") {
      const key = String(error.params["missingProperty"]);
      // The misspelt key has been reported. It would be confusing to report the correct key as missing too.
      if (misspelt.has(`${error.instancePath}\n${key}`)) continue;
      issues.push({ path: error.instancePath, message: explainMissingKey(error, key) });
    } else {
      issues.push({ path: error.instancePath, message: explainError(error, syntax) });
    }
  }
  return issues;
}

function explainUnknownKey(
  error: ErrorObject,
  key: string,
  syntax: Syntax,
): { message: string; meant: string | undefined } {
  const schema = getParentSchema(error);
  if (schema.patternProperties) {
    const parent = parsePointer(error.instancePath).at(-1) ?? "";
    const rule = keyRules[parent] ?? `it has to match ${Object.keys(schema.patternProperties)[0]}`;
    return { message: `"${shortenKey(key)}" cannot be a key here: ${rule}`, meant: undefined };
  }
  const known = Object.keys(schema.properties ?? {});
  const present = error.data !== null && typeof error.data === "object" ? error.data : {};
  const hint = formatSuggestion(
    key,
    known.filter((name) => !Object.hasOwn(present, name)),
  );
  if (key === "<<" && syntax === "yaml") {
    return {
      message: 'unknown key "<<": YAML 1.2 has no merge keys; repeat the values',
      meant: undefined,
    };
  }
  const list = hint === "" ? `; known keys: ${known.join(", ")}` : hint;
  return {
    message: `unknown key "${shortenKey(key)}"${list}`,
    meant: /did you mean "(.*)"\?$/.exec(hint)?.[1],
  };
}

/** Rules for the keys of mappings whose keys users choose, such as `env`, by the name of the mapping. */
const keyRules: Readonly<Record<string, string>> = {
  env: "the name of a variable has letters, digits, _ . and -, and does not start with a digit",
  args: "the name of a build argument has letters, digits and _, and does not start with a digit",
  data: "a key may have letters, digits, . _ and -, at most 253",
  labels: "a key may have letters, digits, . / _ and -, at most 253",
  annotations: "a key may have letters, digits, . / _ and -, at most 253",
};

function explainMissingKey(error: ErrorObject, key: string): string {
  const property = getParentSchema(error).properties?.[key];
  const description = property?.description;
  return `missing key "${key}"${description === undefined ? "" : ` (${description})`}`;
}

function explainError(error: ErrorObject, syntax: Syntax): string {
  const schema = getParentSchema(error);
  const data: unknown = error.data;
  const limit = Number(error.params["limit"]);
  switch (error.keyword) {
    case "type":
      return `expected ${describeExpectation(schema, syntax)}, found ${describeValue(data, error.instancePath, syntax)}${getQuotingHint(schema, data)}`;
    case "enum": {
      const known = typeof data === "string" ? (schema.enum ?? []).map(String) : [];
      return `expected ${describeExpectation(schema, syntax)}, found ${describeValue(data, error.instancePath, syntax)}${known.length > 0 ? formatSuggestion(String(data), known) : ""}`;
    }
    case "const":
    case "pattern":
    case "minimum":
    case "maximum":
    case "exclusiveMinimum":
    case "exclusiveMaximum":
      return `expected ${describeExpectation(schema, syntax)}, found ${describeValue(data, error.instancePath, syntax)}`;
    case "minLength":
      return limit === 1 ? "must not be empty" : `needs at least ${limit} characters`;
    case "maxLength":
      return `has ${String(data).length} characters; at most ${limit} are allowed`;
    case "minItems":
      return limit === 1 ? "needs at least one entry" : `needs at least ${limit} entries`;
    case "maxItems":
    case "maxProperties":
      return `has more than ${limit} entries`;
    default:
      return error.message ?? "is not valid";
  }
}

/**
 * Returns a hint to quote a word that YAML has parsed as a number or a boolean, because users may not know that quotes
 * help.
 */
function getQuotingHint(schema: Schema, data: unknown): string {
  if (schema.type !== "string" || (typeof data !== "number" && typeof data !== "boolean"))
    return "";
  const helps = schema.pattern === undefined || new RegExp(schema.pattern).test(String(data));
  return helps ? "; put it in quotes" : "";
}

interface UnionBranch {
  readonly branch: Schema;
  readonly index: number;
}

function explainUnion({ error: union, inside }: SchemaFailure, syntax: Syntax): SpecIssue[] {
  const schema = getParentSchema(union);
  const branches = (schema.anyOf ?? []).map((branch, index) => ({ branch, index }));
  const data: unknown = union.data;
  const ofType = branches.filter(({ branch }) => matchesType(branch, data));
  const close = isObject(data) ? findClosestBranches(ofType, data) : ofType;

  const [chosen] = close;
  if (chosen !== undefined && close.length === 1 && chosen.branch.const === undefined) {
    const prefix = `${union.schemaPath}/${chosen.index}/`;
    const issues = explainFailures(
      inside.filter(({ error }) => error.schemaPath.startsWith(prefix)),
      syntax,
    );
    if (issues.length > 0) return issues;
  }
  const mixed = isObject(data) ? explainMixedKeys(close, data) : undefined;
  if (mixed !== undefined) return [{ path: union.instancePath, message: mixed }];

  const allowed = branches.map(({ branch }) => branch.const).filter((value) => value !== undefined);
  const hint = typeof data === "string" ? formatSuggestion(data, allowed.map(String)) : "";
  const seen = isObject(data)
    ? `${describeValue(data, union.instancePath, syntax)} with ${Object.keys(data).slice(0, 5).join(", ") || "no keys"}`
    : describeValue(data, union.instancePath, syntax);
  return [
    {
      path: union.instancePath,
      message: `expected ${describeExpectation(schema, syntax)}, found ${seen}${hint}`,
    },
  ];
}

/**
 * Returns the branch whose distinctive keys the value has, including misspelt ones. Returns several branches if the
 * value mixes keys of branches or has no distinctive key. A key that all branches share is not distinctive.
 */
function findClosestBranches(
  candidates: readonly UnionBranch[],
  data: Readonly<Record<string, unknown>>,
): readonly UnionBranch[] {
  const keys = Object.keys(data).slice(0, 100);
  const objects = candidates.filter(({ branch }) => isObjectSchema(branch));
  const scored = objects.map((candidate) => {
    const known = Object.keys(candidate.branch.properties ?? {});
    const score = keys.reduce((sum, key) => {
      if (known.includes(key)) return sum + 1;
      return findNearest(key, known) === undefined ? sum : sum + 0.5;
    }, 0);
    return { candidate, score };
  });
  const best = Math.max(...scored.map(({ score }) => score));
  return scored.filter(({ score }) => score === best).map(({ candidate }) => candidate);
}

/**
 * Returns a message such as `set git or local, not both` if the value has keys that belong to different branches of the
 * union.
 */
function explainMixedKeys(
  branches: readonly UnionBranch[],
  data: Readonly<Record<string, unknown>>,
): string | undefined {
  const known = branches.map(({ branch }) => Object.keys(branch.properties ?? {}));
  const own = known.map((keys, index) =>
    keys.find(
      (key) =>
        Object.hasOwn(data, key) &&
        !known.some((others, other) => other !== index && others.includes(key)),
    ),
  );
  const [first, second] = own.filter((key) => key !== undefined);
  if (first === undefined || second === undefined) return undefined;
  return `set ${first} or ${second}, not both`;
}

function getParentSchema(error: ErrorObject): Schema {
  const schema: unknown = error.parentSchema;
  return isSchema(schema) ? schema : {};
}

function isSchema(value: unknown): value is Schema {
  return isObject(value);
}
