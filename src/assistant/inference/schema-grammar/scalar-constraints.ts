import type { Expression, RuleSink } from "./expression.ts";

/**
 * What the schema compiler asks of `strings-and-numbers/`. Every bound in one set of constraints holds at
 * once: allOf is merged before, so a string may have to match several patterns and formats.
 */
export interface StringConstraints {
  /** Code points, as JSON Schema counts. */
  readonly minLength?: number | undefined;
  readonly maxLength?: number | undefined;
  /** ECMA-262 regular expressions that are found somewhere in the string (search, not whole match). */
  readonly patterns: readonly StringPattern[];
  /** Expressions that are found nowhere in it: `not`, and names that patternProperties has claimed. */
  readonly forbiddenPatterns: readonly StringPattern[];
  /** Names of formats, all of which hold. */
  readonly formats: readonly StringPattern[];
  /** Exact strings that it is not: declared names for additionalProperties, `not` over const. */
  readonly excluded: readonly string[];
}

/** A pattern or the name of a format, and where it stands, for the message that refuses it. */
export interface StringPattern {
  readonly source: string;
  /** The keyword that holds it: `pattern`, `format`, `patternProperties`, `propertyNames`. */
  readonly keyword: string;
  /** JSON Pointer of that keyword in the client's schema, as a fragment: `#/properties/a/pattern`. */
  readonly pointer: string;
}

/** Numbers as written in the schema; absent bounds are undefined. `multipleOf` is positive. */
export interface NumberConstraints {
  readonly integer: boolean;
  readonly minimum?: number | undefined;
  readonly maximum?: number | undefined;
  readonly exclusiveMinimum?: number | undefined;
  readonly exclusiveMaximum?: number | undefined;
  readonly multipleOf?: number | undefined;
  /** JSON Pointer of the schema that these came from, for the message that refuses them. */
  readonly pointer: string;
}

/** The two implementations, in `strings-and-numbers/`, are pure but for the rules that they add. */
export interface ScalarGrammar {
  /**
   * A whole JSON string, quotes included, also used for names of properties. Undefined: no string meets
   * the constraints. Throws AssistantError `unsupported_schema`, with keyword and pointer, for a pattern or
   * a format that cannot be enforced, and where an automaton grows past its bound.
   */
  compileString(constraints: StringConstraints, sink: RuleSink): Expression | undefined;
  /** Whether this string (decoded, without quotes) is in that language; throws as `string` does. */
  allowsString(constraints: StringConstraints, text: string): boolean;
  /** True where no string meets the constraints; adds no rule. Used to prove branches disjoint. */
  matchesNoString(constraints: StringConstraints): boolean;
  /** Undefined: no number meets the constraints. Throws as `string` does. */
  compileNumber(constraints: NumberConstraints, sink: RuleSink): Expression | undefined;
  allowsNumber(constraints: NumberConstraints, value: number): boolean;
}
