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
   * The number of paths from a rule through the rules that it can begin with. llama.cpp's check for left
   * recursion follows every path without caching.
   */
  leftWalk: 2_000_000,
  /**
   * The length in characters of the shortest document that the schema allows. A document above this limit fits into no
   * model's context.
   */
  shortestText: 1_000_000,
  /** The number of alternatives created when unions, conditions and intersections are combined. */
  alternatives: 20_000,
  /** The depth of `$ref`, allOf, anyOf and similar keywords without an object or array in between. */
  inPlaceDepth: 200,
  /** The CPU time of one compilation in the worker. */
  compileMs: 250,
} as const;
