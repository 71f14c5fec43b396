/** The limits for one schema. They protect against hostile input; real schemas stay far below them. */
export const schemaLimits = {
  /** The nesting depth of objects and arrays in the schema's text. */
  depth: 64,
  /** The number of objects, arrays and plain values in the schema's text. */
  nodes: 10_000,
  /** The size of the GBNF text. */
  grammarBytes: 256 * 1024,
  /**
   * The largest count of a repetition. llama.cpp refuses a larger minimum, and treats a larger maximum as
   * unlimited, which would silently loosen the schema.
   */
  repetition: 2_000,
  /** The number of elements that llama.cpp's parser creates when it expands repetitions. */
  elements: 400_000,
  /**
   * The number of paths that llama.cpp's check for left recursion follows: from each rule, without caching, through all
   * rules that it can begin with.
   */
  leftWalk: 2_000_000,
  /**
   * The length in characters of the shortest document that the schema allows. A longer document fits into no model's
   * context.
   */
  shortestText: 1_000_000,
  /** The number of alternatives that normalising creates when it combines unions, conditions and intersections. */
  alternatives: 20_000,
  /** The largest nesting depth of `$ref`, `allOf`, `anyOf` and similar keywords that have no object or array between them. */
  inPlaceDepth: 200,
  /** The CPU time that one compilation may use in the worker. */
  compileMs: 250,
} as const;
