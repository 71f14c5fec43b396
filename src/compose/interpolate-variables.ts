import type { Scalar } from "./compose-tree.ts";

export type Variables = ReadonlyMap<string, string>;

export interface Interpolated {
  readonly text: string;
  /** Names of variables that are not set and have no default. They are replaced by an empty text. */
  readonly unsetVariables: readonly string[];
  /**
   * The reason why the variables cannot be expanded, such as an unset `${NAME:?message}`. The reason never contains the
   * value of a variable.
   */
  readonly failure?: string;
}

/** The deepest allowed nesting of variables in defaults (`${A:-${B:-c}}`), deeper than any real file needs. */
const DEPTH_MAX = 20;
/**
 * The maximum length of a text after its variables are expanded. Without it, a few lines of variables that refer to
 * each other could fill the memory.
 */
export const EXPANDED_TEXT_MAX = 1_048_576;

/**
 * Expands variables as Compose does: `$NAME`, `${NAME}`, the operators `:-`, `-`, `:?`, `?`, `:+` and `+`, whose
 * right side may contain variables, and `$$` for a dollar sign. Any other dollar sign is literal. Never throws.
 */
export function interpolate(text: string, variables: Variables): Interpolated {
  if (!text.includes("$")) return { text, unsetVariables: [] };
  const unset = new Set<string>();
  const result = interpolateText(text, variables, unset, 0);
  return typeof result === "string"
    ? { text: result, unsetVariables: [...unset] }
    : { text: "", unsetVariables: [...unset], failure: result.failure };
}

/**
 * Returns a copy of a scalar with its variables expanded, and with the names of unset variables and any expansion
 * failure.
 */
export function interpolateScalar(scalar: Scalar, variables: Variables): Scalar {
  if (typeof scalar.value !== "string" || !scalar.text.includes("$")) return scalar;
  const { text, unsetVariables: unset, failure } = interpolate(scalar.text, variables);
  return {
    ...scalar,
    value: text,
    text,
    ...(unset.length === 0 ? {} : { unsetVariables: unset }),
    ...(failure === undefined ? {} : { failure }),
  };
}

interface Failure {
  readonly failure: string;
}

const namePattern = /^[A-Za-z_][A-Za-z0-9_]*/;

function interpolateText(
  text: string,
  variables: Variables,
  unset: Set<string>,
  depth: number,
): string | Failure {
  if (depth > DEPTH_MAX) return { failure: "the variables in this value are nested too deeply" };
  let result = "";
  let at = 0;
  for (;;) {
    if (result.length > EXPANDED_TEXT_MAX)
      return { failure: "this value is longer than 1 MiB after its variables are expanded" };
    const dollar = text.indexOf("$", at);
    if (dollar === -1) return result + text.slice(at);
    result += text.slice(at, dollar);
    const next = text[dollar + 1];
    if (next === "$") {
      result += "$";
      at = dollar + 2;
      continue;
    }
    const name = namePattern.exec(text.slice(dollar + 1, dollar + 1 + 256))?.[0];
    if (name !== undefined) {
      const value = variables.get(name);
      if (value === undefined) unset.add(name);
      result += value ?? "";
      at = dollar + 1 + name.length;
      continue;
    }
    if (next !== "{") {
      result += "$";
      at = dollar + 1;
      continue;
    }
    const end = findClosingBrace(text, dollar + 2);
    if (end === -1) {
      return {
        failure: '"${" has no closing brace; write "$$" for a literal dollar sign',
      };
    }
    const value = expandVariable(text.slice(dollar + 2, end), variables, unset, depth);
    if (typeof value !== "string") return value;
    result += value;
    at = end + 1;
  }
}

/**
 * Returns the index of the brace that closes the `${` before `from`; -1 if there is none. As in Compose, each other
 * opening brace needs a closing one too, so that a default may be JSON; if some are missing, the last closing brace of
 * the line counts.
 */
function findClosingBrace(text: string, from: number): number {
  let open = 1;
  for (let at = from; at < text.length; at += 1) {
    if (text[at] === "{") {
      open += 1;
      // Compose skips the character after an opening brace.
      at += 1;
    } else if (text[at] === "}") open -= 1;
    if (open === 0) return at;
  }
  const end = text.indexOf("\n", from);
  const last = text.slice(from, end === -1 ? undefined : end).lastIndexOf("}");
  return last === -1 ? -1 : from + last;
}

/** Expands the text between the braces of a variable. */
function expandVariable(
  body: string,
  variables: Variables,
  unset: Set<string>,
  depth: number,
): string | Failure {
  const name = namePattern.exec(body)?.[0];
  if (name === undefined) return { failure: "${...} contains no variable name" };
  const rest = body.slice(name.length);
  const value = variables.get(name);
  if (rest === "") {
    if (value === undefined) unset.add(name);
    return value ?? "";
  }
  const operator = /^:?[-?+]/.exec(rest)?.[0];
  if (operator === undefined) {
    return { failure: `\${${name}...} is not valid in Compose` };
  }
  const isThere = value !== undefined && (value !== "" || !operator.startsWith(":"));
  const argument = rest.slice(operator.length);
  if (operator.endsWith("+"))
    return isThere ? interpolateText(argument, variables, unset, depth + 1) : "";
  if (isThere) return value;
  if (operator.endsWith("-")) return interpolateText(argument, variables, unset, depth + 1);
  const detail = argument.trim() === "" ? "" : `: ${argument}`;
  return { failure: `the variable ${name} must be set${detail}` };
}
