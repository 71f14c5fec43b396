import type { SchemaCase } from "./schema-cases.ts";

export const valueCases: readonly SchemaCase[] = [
  // type
  {
    name: "true",
    schema: true,
    valid: [null, true, 1.5, "a", [1, [2]], { a: { b: 1 } }],
    invalid: [],
  },
  { name: "{}", schema: {}, valid: [null, false, -3, "", [], {}], invalid: [] },
  { name: "type null", schema: { type: "null" }, valid: [null], invalid: [0, false, "", [], {}] },
  {
    name: "type boolean",
    schema: { type: "boolean" },
    valid: [true, false],
    invalid: [0, null, "true"],
  },
  {
    name: "type integer",
    schema: { type: "integer" },
    valid: [0, 1, -12, 1000],
    invalid: [1.5, "1", null],
  },
  {
    name: "type number",
    schema: { type: "number" },
    valid: [0, 1.5, -0.25, 12],
    invalid: ["1", null, true],
  },
  {
    name: "type string",
    schema: { type: "string" },
    valid: ["", "é€😀", 'q"\\\n\u0001'],
    invalid: [1, null, []],
  },
  {
    name: "type array",
    schema: { type: "array" },
    valid: [[], [1, "a", null]],
    invalid: [{}, "[]"],
  },
  {
    name: "type object",
    schema: { type: "object" },
    valid: [{}, { a: [1], ü: null }],
    invalid: [[], "{}"],
  },
  {
    name: "type list",
    schema: { type: ["integer", "null"] },
    valid: [3, null],
    invalid: [1.5, "3", []],
  },
  {
    name: "nullable",
    schema: { type: "string", nullable: true },
    valid: ["a", null],
    invalid: [1],
  },
  // const, enum
  { name: "const", schema: { const: "a" }, valid: ["a"], invalid: ["b", "", null, ["a"]] },
  {
    name: "const object",
    schema: { const: { a: 1, b: [true] } },
    valid: [{ a: 1, b: [true] }],
    invalid: [{ a: 1 }, {}],
  },
  {
    name: "const with quotes",
    schema: { const: 'say "é"\n' },
    valid: ['say "é"\n'],
    invalid: ["say"],
  },
  {
    name: "enum",
    schema: { enum: ["red", "green", "greenish", 1, 12, null, [1], { a: 1 }] },
    valid: ["red", "green", "greenish", 1, 12, null, [1], { a: 1 }],
    invalid: ["re", "greenis", 2, 121, {}, []],
  },
  {
    name: "enum within a type",
    schema: { type: "string", enum: ["a", 1, null, "bb"], minLength: 2 },
    valid: ["bb"],
    invalid: ["a", 1, null],
  },
  {
    name: "enum within bounds",
    schema: { enum: [1, 2, 3, 4], minimum: 2, exclusiveMaximum: 4 },
    valid: [2, 3],
    invalid: [1, 4],
  },
  {
    name: "enum of objects within properties",
    schema: { enum: [{ a: 1 }, { a: "x" }], properties: { a: { type: "string" } } },
    valid: [{ a: "x" }],
    invalid: [{ a: 1 }],
  },
  // numbers
  {
    name: "minimum and maximum",
    schema: { type: "integer", minimum: -3, maximum: 12 },
    valid: [-3, 0, 7, 12],
    invalid: [-4, 13, 120],
  },
  {
    name: "exclusive bounds",
    schema: { type: "integer", exclusiveMinimum: 0, exclusiveMaximum: 3 },
    valid: [1, 2],
    invalid: [0, 3, -1],
  },
  {
    name: "exclusive bounds of draft 4",
    schema: {
      $schema: "http://json-schema.org/draft-04/schema#",
      type: "integer",
      minimum: 0,
      exclusiveMinimum: true,
      maximum: 3,
      exclusiveMaximum: false,
    },
    valid: [1, 3],
    invalid: [0, 4],
  },
  {
    name: "bounds of fractions",
    schema: { type: "number", minimum: 0.5, maximum: 1.25 },
    valid: [0.5, 1, 1.25, 0.75],
    invalid: [0.4, 1.3, 2, -1],
  },
  {
    name: "multipleOf",
    schema: { type: "integer", multipleOf: 3, minimum: 0, maximum: 30 },
    valid: [0, 3, 27, 30],
    invalid: [1, 31, 33, -3],
  },
  {
    name: "multipleOf twice",
    schema: { type: "integer", multipleOf: 4, allOf: [{ multipleOf: 6 }], minimum: 1, maximum: 40 },
    valid: [12, 24, 36],
    invalid: [4, 6, 8, 0, 48],
  },
  {
    name: "bounds pass over other types",
    schema: { minimum: 5 },
    valid: [5, "a", null, [1]],
    invalid: [4],
  },
  {
    name: "format int32",
    schema: { type: "integer", format: "int32" },
    valid: [0, 2147483647, -2147483648],
    invalid: [2147483648, 1.5],
  },
  // strings
  {
    name: "length",
    schema: { type: "string", minLength: 2, maxLength: 3 },
    valid: ["ab", "abc", "😀😀", '"\n'],
    invalid: ["a", "abcd", "😀"],
  },
  {
    name: "pattern",
    schema: { type: "string", pattern: "^[a-c]+\\d?$" },
    valid: ["a", "abc1"],
    invalid: ["", "d", "a12"],
  },
  {
    name: "pattern anywhere",
    schema: { type: "string", pattern: "b+c" },
    valid: ["abbcd", "bc"],
    invalid: ["b", "cb", ""],
  },
  {
    name: "pattern and length",
    schema: { type: "string", pattern: "^a*b?$", minLength: 2, maxLength: 3 },
    valid: ["aa", "aab", "ab"],
    invalid: ["a", "aaab", "b"],
  },
  {
    name: "two patterns",
    schema: { type: "string", pattern: "a", allOf: [{ pattern: "b" }] },
    valid: ["ab", "xbya"],
    invalid: ["a", "b"],
  },
  {
    name: "format date",
    schema: { type: "string", format: "date" },
    valid: ["2024-02-29", "1999-12-31"],
    invalid: ["2024-13-01", "2024-1-1", "x"],
  },
  {
    name: "format uuid",
    schema: { type: "string", format: "uuid" },
    valid: ["123e4567-e89b-12d3-a456-426614174000"],
    invalid: ["123e4567", ""],
  },
  {
    name: "format ipv4",
    schema: { type: "string", format: "ipv4" },
    valid: ["127.0.0.1", "255.255.255.255"],
    invalid: ["256.1.1.1", "1.2.3"],
  },
];
