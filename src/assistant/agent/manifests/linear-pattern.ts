import { RE2JS } from "re2js";
import { getErrorMessage } from "../../../base/errors.ts";

/** Patterns with more characters than this are rejected. */
const PATTERN_CHARS_MAX = 1000;

/** The members of RegExp that Ajv uses. */
export interface LinearPattern {
  test(text: string): boolean;
  /** Returns the text that Ajv uses as the cache key of a pattern. */
  toString(): string;
}

/**
 * Compiles a pattern with RE2, which matches every pattern in time linear in the text: pattern and text come from
 * untrusted apps. RE2 has no lookaround, no back references and no more than 1,000 repetitions. Throws an Error whose
 * message is one line about the pattern.
 */
export function compileLinearPattern(source: string): LinearPattern {
  if (source.length > PATTERN_CHARS_MAX) {
    throw new Error(`the pattern is longer than ${PATTERN_CHARS_MAX} characters`);
  }
  let compiled: RE2JS;
  try {
    compiled = RE2JS.compile(RE2JS.translateRegExp(source));
  } catch (error) {
    throw new Error(getErrorMessage(error).split("\n")[0]?.slice(0, 200), { cause: error });
  }
  return { test: (text) => compiled.test(text), toString: () => source };
}
