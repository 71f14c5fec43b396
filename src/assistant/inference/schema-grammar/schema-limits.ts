/** What one schema may cost. Each is a cap on hostile input; what real clients send stays far below. */
export const schemaLimits = {
  /** Objects and arrays within each other in the schema's text. */
  depth: 64,
  /** Objects, arrays and plain values in the schema's text. */
  nodes: 10_000,
  /** Bytes of GBNF. */
  grammarBytes: 256 * 1024,
  /**
   * Times that one thing is repeated. llama.cpp refuses a larger minimum, and takes a larger maximum to
   * mean «without end», which would loosen the schema in silence.
   */
  repetition: 2_000,
  /** Elements that llama.cpp's parser makes of the text: it writes each repetition out. */
  elements: 400_000,
  /**
   * Ways from a rule through the rules that it begins with. llama.cpp's check for left recursion walks
   * every one of them, each time anew.
   */
  leftWalk: 2_000_000,
  /** Characters of the shortest document: no context holds a longer one. */
  shortestText: 1_000_000,
  /** Alternatives made while unions, conditions and intersections are multiplied out. */
  parts: 20_000,
  /** How far `$ref`, allOf, anyOf and the like lead on before an object or an array is entered. */
  inPlaceDepth: 200,
  /** Time on a core of one compilation in the worker. */
  compileMs: 250,
} as const;
