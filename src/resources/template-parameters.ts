import { randomInt } from "node:crypto";
import { InvalidSpecError, type SpecIssue } from "../base/errors.ts";
import { runWithTimeLimit, TimeLimitError } from "../base/run-with-time-limit.ts";
import { formatSuggestion } from "../base/spelling-suggestions.ts";
import { NAME_LENGTH_MAX } from "./field-schemas.ts";
import type { TemplateParameter, TemplateSpec } from "./template-spec.ts";

export type ParameterValue = string | number | boolean;

export interface ResolvedParameter {
  /**
   * The value; undefined if none is given and there is no default. A field that consists only of this parameter is
   * then omitted.
   */
  readonly value: ParameterValue | undefined;
  readonly secret: boolean;
}

/**
 * The maximum length of a value. It is longer than any password, host name or URL, and short enough for fast pattern
 * matching.
 */
const VALUE_LENGTH_MAX = 8192;

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/** Returns `length` random letters and digits from the system's random source. Such a text never needs quoting. */
export function generateRandomText(length: number): string {
  return Array.from({ length }, () => ALPHABET[randomInt(ALPHABET.length)]).join("");
}

/**
 * Returns the value of each parameter of the template: the given one, otherwise a generated one, otherwise the default,
 * otherwise none. A parameter whose default is a number or a boolean also accepts one as text (`8080`, `true`), as the
 * command line sends it.
 *
 * The template must have passed `validateManifest`. Throws InvalidSpecError with all issues; their paths are
 * `/parameters/<name>`. Messages never contain the value of a secret parameter.
 */
export function resolveParameters(
  template: TemplateSpec,
  given: Readonly<Record<string, unknown>>,
  random: (length: number) => string,
): ReadonlyMap<string, ResolvedParameter> {
  const declared = template.parameters ?? [];
  const issues: SpecIssue[] = [
    ...findNameClashes(declared),
    ...findUnknownParameters(declared, Object.keys(given)),
  ];
  const resolved = new Map<string, ResolvedParameter>();
  for (const parameter of declared) {
    const secret = parameter.secret === true;
    const result = resolveParameter(
      parameter,
      Object.hasOwn(given, parameter.name) ? given[parameter.name] : undefined,
      random,
    );
    if ("problem" in result) {
      issues.push({ path: `/parameters/${parameter.name}`, message: result.problem });
    } else {
      resolved.set(parameter.name, { value: result.value, secret });
    }
  }
  if (issues.length > 0) {
    throw new InvalidSpecError(
      issues.map((issue) => issue.message).join("; "),
      issues,
      "GET /api/templates lists the parameters of each template",
    );
  }
  return resolved;
}

/**
 * Returns the name of the Secret for a secret parameter: `blog-admin-password` for `adminPassword` of the app `blog`.
 */
export function getSecretName(app: string, parameter: string): string {
  const suffix = parameter
    .replaceAll(/([a-z0-9])([A-Z])/g, "$1-$2")
    .replaceAll(/_+/g, "-")
    .replace(/-$/, "")
    .toLowerCase();
  return `${app}-${suffix}`;
}

/** Finds parameters whose names are equal in kebab case (`dbUrl`, `db_url`), because they would share one Secret. */
function findNameClashes(declared: readonly TemplateParameter[]): SpecIssue[] {
  const issues: SpecIssue[] = [];
  const taken = new Map<string, string>();
  for (const { name } of declared.filter((parameter) => parameter.secret === true)) {
    const secretName = getSecretName("", name);
    const other = taken.get(secretName);
    if (other !== undefined) {
      issues.push({
        path: `/parameters/${name}`,
        message: `the secret parameters "${other}" and "${name}" of the template would share one Secret; rename one of them`,
      });
    }
    taken.set(secretName, name);
  }
  return issues;
}

function findUnknownParameters(
  declared: readonly TemplateParameter[],
  given: readonly string[],
): SpecIssue[] {
  const known = declared.map((parameter) => parameter.name);
  return given
    .filter((name) => !known.includes(name))
    .map((name) => {
      const shown = JSON.stringify(name.slice(0, NAME_LENGTH_MAX));
      const nearest = formatSuggestion(name.slice(0, NAME_LENGTH_MAX), known);
      const list = known.length === 0 ? "the template has none" : `known are ${known.join(", ")}`;
      return {
        path: "/parameters",
        message: `there is no parameter ${shown}${nearest === "" ? ` (${list})` : nearest}`,
      };
    });
}

function resolveParameter(
  parameter: TemplateParameter,
  given: unknown,
  random: (length: number) => string,
): { value: ParameterValue | undefined } | { problem: string } {
  const { name } = parameter;
  // A form sends "" for a field that the user left empty. The empty text must not become an empty password or domain.
  const absent =
    given === undefined ||
    given === null ||
    (given === "" && (parameter.required === true || typeof parameter.default !== "string"));
  if (absent) {
    if (parameter.generate !== undefined) return { value: random(parameter.generate) };
    if (parameter.default !== undefined) {
      return { value: parameter.secret ? String(parameter.default) : parameter.default };
    }
    if (parameter.required === true) {
      const about = parameter.description === undefined ? "" : ` (${parameter.description})`;
      return { problem: `the parameter "${name}" is required${about}` };
    }
    return { value: undefined };
  }
  if (typeof given !== "string" && typeof given !== "number" && typeof given !== "boolean") {
    return { problem: `the parameter "${name}" must be text, a number, true or false` };
  }
  const text = String(given);
  if (text.length > VALUE_LENGTH_MAX) {
    return { problem: `the parameter "${name}" is longer than ${VALUE_LENGTH_MAX} characters` };
  }
  if (parameter.pattern !== undefined && !matchesPattern(name, parameter.pattern, text)) {
    const shown = parameter.secret ? "its value" : JSON.stringify(text.slice(0, 100));
    return {
      problem: `the parameter "${name}" must match ${parameter.pattern}; ${shown} does not`,
    };
  }
  return coerceValue(parameter, given, text);
}

/**
 * The time limit of one match, which usually takes microseconds. Some patterns, such as `^(a+)+$`, take years for a
 * value of fifty characters, and the author of a template chooses the pattern.
 */
const MATCH_MS_MAX = 250;

/** Throws InvalidSpecError if the match takes too long. The error ends the request, so no further pattern is tried. */
function matchesPattern(name: string, pattern: string, text: string): boolean {
  try {
    return runWithTimeLimit(() => new RegExp(pattern, "u").test(text), MATCH_MS_MAX);
  } catch (error) {
    if (!(error instanceof TimeLimitError)) throw error;
    const message = `the pattern of the parameter "${name}" takes too long to check the value`;
    throw new InvalidSpecError(
      message,
      [{ path: `/parameters/${name}`, message }],
      "simplify the pattern in the template, for example by removing nested repetitions",
    );
  }
}

function coerceValue(
  parameter: TemplateParameter,
  given: ParameterValue,
  text: string,
): { value: ParameterValue } | { problem: string } {
  const { name } = parameter;
  if (parameter.secret) return { value: text };
  switch (typeof parameter.default) {
    case "number": {
      const number =
        typeof given === "number" ? given : Number(text.trim() === "" ? Number.NaN : text);
      return Number.isFinite(number) && typeof given !== "boolean"
        ? { value: number }
        : { problem: `the parameter "${name}" must be a number` };
    }
    case "boolean":
      return text === "true" || text === "false"
        ? { value: text === "true" }
        : { problem: `the parameter "${name}" must be true or false` };
    case "string":
      return { value: text };
    default:
      return { value: given };
  }
}
