import type { NumberConstraints, StringConstraints, StringPattern } from "../scalar-constraints.ts";
import { refuseKeyword } from "../schema-refusal.ts";
import { TooLargeError, UnsupportedConstructError } from "./budget.ts";

type RefusalSource = StringPattern | StringConstraints | NumberConstraints;

/**
 * Runs `work`. Converts its TooLargeError or UnsupportedConstructError to an `unsupported_schema` error with the
 * keyword and JSON Pointer of `source`.
 */
export function refuseOnError<Result>(source: RefusalSource, work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    if (error instanceof TooLargeError) return refuseSource(source, error.message);
    if (error instanceof UnsupportedConstructError) return refuseSource(source, error.message);
    throw error;
  }
}

function refuseSource(source: RefusalSource, why: string): never {
  if ("source" in source) return refuseKeyword(source.keyword, source.pointer, why);
  if ("integer" in source) {
    const keyword = source.multipleOf === undefined ? "minimum" : "multipleOf";
    return refuseKeyword(keyword, `${source.pointer}/${keyword}`, why);
  }
  const first = [...source.patterns, ...source.formats, ...source.forbiddenPatterns][0];
  if (first === undefined) return refuseKeyword("minLength", "a string", why);
  return refuseKeyword(
    first.keyword,
    first.pointer,
    `${why}, together with the other constraints of the string`,
  );
}
