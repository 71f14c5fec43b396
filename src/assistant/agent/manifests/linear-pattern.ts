import { RE2JS } from "re2js";
import { getErrorMessage } from "../../../base/errors.ts";

/** Longer ones are no patterns but programs. */
const PATTERN_CHARS_MAX = 1000;

/** What Ajv needs of a regular expression. */
export interface LinearPattern {
  test(text: string): boolean;
  /** Ajv tells patterns apart by this. */
  toString(): string;
}

/**
 * The pattern as RE2 has it, which takes time in proportion to the text, whatever the pattern: both come
 * from strangers. RE2 has no look-around, no back references and no more than 1,000 repetitions. Throws
 * Error, whose message is one line about the pattern.
 */
export function compileLinearPattern(source: string): LinearPattern {
  if (source.length > PATTERN_CHARS_MAX) {
    throw new Error(`it is longer than ${PATTERN_CHARS_MAX} characters`);
  }
  let compiled: RE2JS;
  try {
    compiled = RE2JS.compile(RE2JS.translateRegExp(source));
  } catch (error) {
    throw new Error(getErrorMessage(error).split("\n")[0]?.slice(0, 200), { cause: error });
  }
  return { test: (text) => compiled.test(text), toString: () => source };
}
