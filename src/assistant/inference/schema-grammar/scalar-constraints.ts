import type { Expression, RuleSink } from "./expression.ts";

/**
 * The constraints of a string, all of which apply. allOf is merged before, so a string may have to match
 * several patterns and formats.
 */
export interface StringConstraints {
  /** Lengths are in code points, as in JSON Schema. */
  readonly minLength?: number | undefined;
  readonly maxLength?: number | undefined;
  /** ECMA-262 regular expressions that must match somewhere in the string. */
  readonly patterns: readonly StringPattern[];
  /**
   * Regular expressions that must match nowhere in the string. They come from `not`, and from patternProperties for the
   * names of additional properties.
   */
  readonly forbiddenPatterns: readonly StringPattern[];
  /** Names of JSON Schema formats. The string must satisfy each of them. */
  readonly formats: readonly StringPattern[];
  /** Excluded strings: declared names for additionalProperties, and values of a negated const. */
  readonly excluded: readonly string[];
}

/** A pattern or the name of a format, with the keyword and the JSON Pointer that an error message about it contains. */
export interface StringPattern {
  readonly source: string;
  /** The keyword that contains the pattern or format: `pattern`, `format`, `patternProperties`, `propertyNames`. */
  readonly keyword: string;
  /** The JSON Pointer of the keyword in the client's schema, as a fragment: `#/properties/a/pattern`. */
  readonly pointer: string;
}

/** The constraints of a number as written in the schema. `multipleOf` is positive. */
export interface NumberConstraints {
  readonly integer: boolean;
  readonly minimum?: number | undefined;
  readonly maximum?: number | undefined;
  readonly exclusiveMinimum?: number | undefined;
  readonly exclusiveMaximum?: number | undefined;
  readonly multipleOf?: number | undefined;
  /** The JSON Pointer of the schema, for the message of a refusal. */
  readonly pointer: string;
}

/** Compiles strings and numbers. Implementations are pure except for the rules that they add. */
export interface ScalarGrammar {
  /**
   * Compiles constraints to a grammar of JSON strings with their quotes, also for property names. Returns undefined if
   * no string meets the constraints. Throws AssistantError `unsupported_schema`, with keyword and pointer, if a pattern
   * or a format cannot be enforced or an automaton becomes too large.
   */
  compileString(constraints: StringConstraints, sink: RuleSink): Expression | undefined;
  /** Returns true if this decoded string meets the constraints; throws like `compileString`. */
  allowsString(constraints: StringConstraints, text: string): boolean;
  /** Returns true if no string meets the constraints; used to prove that branches are disjoint. */
  matchesNoString(constraints: StringConstraints): boolean;
  /**
   * Compiles constraints to a grammar of JSON numbers; undefined if no number meets them. Throws like `compileString`.
   */
  compileNumber(constraints: NumberConstraints, sink: RuleSink): Expression | undefined;
  allowsNumber(constraints: NumberConstraints, value: number): boolean;
}
