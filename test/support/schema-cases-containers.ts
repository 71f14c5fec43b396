import type { SchemaCase } from "./schema-cases.ts";

export const containerCases: readonly SchemaCase[] = [
  // Test cases for keywords of objects.
  {
    name: "properties",
    schema: { type: "object", properties: { a: { type: "integer" }, b: { type: "string" } } },
    valid: [{}, { a: 1 }, { b: "x" }, { a: 1, b: "x" }],
    invalid: [{ a: "1" }, { b: 2 }, []],
    outside: [{ b: "x", a: 1 }, { c: 1 }],
  },
  {
    name: "no properties",
    schema: { type: "object", properties: {} },
    valid: [{}],
    invalid: [[]],
    outside: [{ a: 1 }],
  },
  {
    name: "required",
    schema: {
      type: "object",
      properties: { a: { type: "integer" }, b: { type: "integer" }, c: { type: "integer" } },
      required: ["b"],
    },
    valid: [{ b: 1 }, { a: 1, b: 2 }, { b: 1, c: 2 }, { a: 1, b: 2, c: 3 }],
    invalid: [{}, { a: 1 }, { a: 1, c: 2 }],
  },
  {
    name: "required without properties",
    schema: { type: "object", required: ["a", "b"] },
    valid: [
      { a: 1, b: [] },
      { a: 1, b: 2, c: 3 },
    ],
    invalid: [{}, { a: 1 }],
  },
  {
    name: "additionalProperties false",
    schema: { type: "object", properties: { a: {} }, additionalProperties: false },
    valid: [{}, { a: 1 }],
    invalid: [{ b: 1 }, { a: 1, b: 1 }],
  },
  {
    name: "additionalProperties of a schema",
    schema: {
      type: "object",
      properties: { a: { type: "string" } },
      required: ["a"],
      additionalProperties: { type: "integer" },
    },
    valid: [{ a: "x" }, { a: "x", b: 1, c: 2 }],
    invalid: [{ a: 1 }, { a: "x", b: "y" }, { b: 1 }],
  },
  {
    name: "additionalProperties true",
    schema: { type: "object", properties: { a: { type: "string" } }, additionalProperties: true },
    valid: [{}, { a: "x", b: 1 }, { aa: null }],
    invalid: [{ a: 1 }],
  },
  {
    name: "patternProperties",
    schema: {
      type: "object",
      patternProperties: { "^x": { type: "integer" }, y$: { type: "integer", minimum: 5 } },
      additionalProperties: false,
    },
    valid: [{}, { x: 1 }, { xy: 5 }, { ay: 7, x1: 0 }],
    invalid: [{ x: "a" }, { xy: 4 }, { b: 1 }],
  },
  {
    name: "patternProperties beside properties",
    schema: {
      type: "object",
      properties: { ab: { type: "integer" } },
      patternProperties: { "^a": { minimum: 3 } },
      additionalProperties: { type: "string" },
    },
    valid: [{ ab: 3, ac: 4, z: "s" }, { ac: "t" }],
    invalid: [{ ab: 2 }, { ac: 1 }, { z: 1 }],
  },
  {
    name: "propertyNames",
    schema: {
      type: "object",
      propertyNames: { pattern: "^[a-z]$" },
      additionalProperties: { type: "integer" },
    },
    valid: [{}, { a: 1, b: 2 }],
    invalid: [{ A: 1 }, { ab: 1 }],
  },
  {
    name: "propertyNames of an enum",
    schema: { type: "object", propertyNames: { enum: ["a", "b"] }, minProperties: 2 },
    valid: [{ a: 1, b: null }],
    invalid: [{ a: 1 }, { c: 1, a: 1 }, {}],
  },
  {
    name: "minProperties",
    schema: {
      type: "object",
      properties: { a: {}, b: {}, c: {} },
      minProperties: 2,
      additionalProperties: false,
    },
    valid: [
      { a: 1, b: 1 },
      { a: 1, c: 1 },
      { b: 1, c: 1 },
      { a: 1, b: 1, c: 1 },
    ],
    invalid: [{}, { a: 1 }, { c: 1 }],
  },
  {
    name: "maxProperties",
    schema: {
      type: "object",
      properties: { a: {}, b: {}, c: {} },
      maxProperties: 1,
      additionalProperties: false,
    },
    valid: [{}, { a: 1 }, { c: 1 }],
    invalid: [
      { a: 1, b: 1 },
      { b: 1, c: 1 },
    ],
  },
  {
    name: "maxProperties of additional ones",
    schema: { type: "object", properties: { a: {} }, maxProperties: 2, additionalProperties: true },
    valid: [{}, { a: 1, x: 1 }, { x: 1, y: 1 }],
    invalid: [{ a: 1, x: 1, y: 1 }],
  },
  {
    name: "minProperties of additional ones",
    schema: {
      type: "object",
      properties: { a: {} },
      required: ["a"],
      minProperties: 2,
      additionalProperties: { type: "null" },
    },
    valid: [
      { a: 1, x: null },
      { a: 1, x: null, y: null },
    ],
    invalid: [{ a: 1 }, {}],
  },
  {
    name: "names that need escapes",
    schema: {
      type: "object",
      properties: { 'q"\\': { type: "null" }, é: { type: "null" } },
      required: ['q"\\', "é"],
    },
    valid: [{ 'q"\\': null, é: null }],
    invalid: [{ é: null }],
  },
  {
    name: "names of Object.prototype",
    schema: {
      type: "object",
      properties: { constructor: { type: "integer" }, toString: { type: "integer" } },
      required: ["constructor"],
    },
    valid: [{ constructor: 1 }, { constructor: 1, toString: 2 }],
    invalid: [{}, { toString: 1 }],
  },
  // Test cases for keywords of arrays.
  {
    name: "items",
    schema: { type: "array", items: { type: "integer" } },
    valid: [[], [1], [1, 2, 3]],
    invalid: [["a"], [1, null], {}],
  },
  {
    name: "minItems and maxItems",
    schema: { type: "array", items: { type: "integer" }, minItems: 2, maxItems: 3 },
    valid: [
      [1, 2],
      [1, 2, 3],
    ],
    invalid: [[], [1], [1, 2, 3, 4]],
  },
  { name: "maxItems 0", schema: { type: "array", maxItems: 0 }, valid: [[]], invalid: [[1]] },
  {
    name: "prefixItems",
    schema: { type: "array", prefixItems: [{ type: "integer" }, { type: "string" }] },
    valid: [[], [1], [1, "a"], [1, "a", null]],
    invalid: [["a"], [1, 2]],
  },
  {
    name: "prefixItems closed",
    schema: {
      type: "array",
      prefixItems: [{ type: "integer" }, { type: "string" }],
      items: false,
      minItems: 1,
    },
    valid: [[1], [1, "a"]],
    invalid: [[], [1, "a", 1], ["a"]],
  },
  {
    name: "prefixItems with a short maximum",
    schema: { type: "array", prefixItems: [{ const: 1 }, { const: 2 }, { const: 3 }], maxItems: 2 },
    valid: [[], [1], [1, 2]],
    invalid: [[1, 2, 3], [2]],
  },
  {
    name: "items as a list",
    schema: {
      $schema: "http://json-schema.org/draft-07/schema#",
      type: "array",
      items: [{ type: "integer" }],
      additionalItems: { type: "string" },
    },
    valid: [[], [1], [1, "a", "b"]],
    invalid: [["a"], [1, 2]],
  },
  {
    name: "items after a long prefix",
    schema: {
      type: "array",
      prefixItems: Array.from({ length: 12 }, (_, index) => ({ const: index })),
      items: { const: "x" },
      minItems: 10,
      maxItems: 14,
    },
    valid: [
      [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
      [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, "x", "x"],
    ],
    invalid: [[0], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, "x", "x", "x"]],
  },
  {
    name: "uniqueItems",
    schema: { type: "array", items: { enum: ["a", "b", "c"] }, uniqueItems: true, minItems: 1 },
    valid: [["a"], ["c", "a"], ["b", "c", "a"]],
    invalid: [[], ["a", "a"], ["a", "b", "a"]],
  },
  {
    name: "uniqueItems of booleans",
    schema: { type: "array", items: { type: "boolean" }, uniqueItems: true },
    valid: [[], [true, false], [false, true]],
    invalid: [[true, true]],
  },
  {
    name: "uniqueItems with one item",
    schema: { type: "array", maxItems: 1, uniqueItems: true },
    valid: [[], ["a"]],
    invalid: [["a", "b"]],
  },
  {
    name: "contains",
    schema: { type: "array", items: { enum: [1, 2, 3] }, contains: { const: 2 } },
    valid: [[2], [1, 2], [2, 3, 1], [2, 2]],
    invalid: [[], [1], [3, 1]],
  },
  {
    name: "minContains and maxContains",
    schema: {
      type: "array",
      items: { enum: [1, 2] },
      contains: { const: 2 },
      minContains: 2,
      maxContains: 3,
      maxItems: 5,
    },
    valid: [
      [2, 2],
      [1, 2, 1, 2],
      [2, 2, 2, 1],
    ],
    invalid: [[2], [1, 1], [2, 2, 2, 2]],
  },
  {
    name: "minContains 0",
    schema: { type: "array", contains: { const: 1 }, minContains: 0 },
    valid: [[], [2], [1]],
    invalid: [{}],
  },
  {
    name: "maxContains without a minimum",
    schema: {
      type: "array",
      items: { type: ["string", "null"] },
      contains: { type: "null" },
      minContains: 0,
      maxContains: 1,
    },
    valid: [[], ["a"], [null, "a"]],
    invalid: [[null, null]],
  },
];
