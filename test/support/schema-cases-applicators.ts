import { consequence, type SchemaCase } from "./schema-cases.ts";

export const applicatorCases: readonly SchemaCase[] = [
  // Test cases for keywords that apply subschemas to the same value.
  {
    name: "allOf",
    schema: {
      allOf: [
        { type: "object", properties: { a: { type: "integer" } }, required: ["a"] },
        { properties: { a: { minimum: 3 }, b: { type: "string" } } },
      ],
    },
    valid: [{ a: 3 }, { a: 4, b: "x" }],
    invalid: [{ a: 2 }, { b: "x" }, { a: 3, b: 1 }],
  },
  {
    name: "allOf with additionalProperties",
    schema: {
      allOf: [
        { properties: { a: {} } },
        { type: "object", additionalProperties: { type: "integer" } },
      ],
    },
    valid: [{}, { a: 1, b: 2 }],
    invalid: [{ a: "x" }, { b: "x" }],
  },
  {
    name: "anyOf",
    schema: {
      anyOf: [
        { type: "integer", minimum: 10 },
        { type: "string", maxLength: 1 },
      ],
    },
    valid: [10, "a", ""],
    invalid: [9, "ab", null],
  },
  {
    name: "anyOf beside properties",
    schema: {
      type: "object",
      properties: { a: { type: "integer" }, b: { type: "integer" } },
      anyOf: [{ required: ["a"] }, { required: ["b"] }],
    },
    valid: [{ a: 1 }, { b: 1 }, { a: 1, b: 1 }],
    invalid: [{}],
  },
  {
    name: "oneOf by type",
    schema: { oneOf: [{ type: "integer" }, { type: "string" }] },
    valid: [1, "a"],
    invalid: [null, 1.5],
  },
  {
    name: "oneOf by const",
    schema: {
      oneOf: [
        {
          type: "object",
          properties: { kind: { const: "a" }, x: { type: "integer" } },
          required: ["kind", "x"],
        },
        {
          type: "object",
          properties: { kind: { const: "b" }, y: { type: "string" } },
          required: ["kind"],
        },
      ],
    },
    valid: [{ kind: "a", x: 1 }, { kind: "b" }, { kind: "b", y: "z" }],
    invalid: [{ kind: "a" }, { kind: "c" }, {}],
  },
  {
    name: "oneOf by required",
    schema: {
      type: "object",
      properties: { a: { type: "null" }, b: { type: "null" } },
      oneOf: [{ required: ["a"] }, { required: ["b"] }],
    },
    valid: [{ a: null }, { b: null }],
    invalid: [{}, { a: null, b: null }],
  },
  {
    name: "oneOf by closed objects",
    schema: {
      oneOf: [
        { type: "object", properties: { a: { type: "null" } }, required: ["a"] },
        { type: "object", properties: { b: { type: "null" } }, required: ["b"] },
      ],
    },
    valid: [{ a: null }, { b: null }],
    invalid: [{ a: null, b: null }, {}],
  },
  {
    name: "oneOf by closed objects, opened later",
    schema: {
      allOf: [
        {
          oneOf: [
            { properties: { a: { type: "null" } }, required: ["a"] },
            { properties: { b: { type: "null" } }, required: ["b"] },
          ],
        },
        { type: "object", properties: { a: {}, b: {} } },
      ],
    },
    valid: [{ a: null }, { b: null }],
    invalid: [{ a: null, b: null }, {}],
  },
  {
    name: "oneOf that overlaps",
    schema: {
      oneOf: [
        { type: "number", maximum: 10 },
        { type: "number", minimum: 5 },
      ],
    },
    valid: [4, 11],
    invalid: [5, 7, 10],
  },
  {
    name: "not a type",
    schema: { not: { type: ["string", "null"] } },
    valid: [1, true, [], {}],
    invalid: ["a", null],
  },
  {
    name: "not a const",
    schema: { type: "string", not: { const: "a" } },
    valid: ["", "b", "aa"],
    invalid: ["a"],
  },
  {
    name: "not an enum",
    schema: { type: ["integer", "boolean", "string"], not: { enum: [3, true, "x"] } },
    valid: [2, 4, false, "y"],
    invalid: [3, true, "x"],
  },
  {
    name: "not required",
    schema: {
      type: "object",
      properties: { a: { type: "null" }, b: { type: "null" } },
      not: { required: ["a", "b"] },
    },
    valid: [{}, { a: null }, { b: null }],
    invalid: [{ a: null, b: null }],
  },
  {
    name: "not within not",
    schema: { not: { not: { type: "null" } } },
    valid: [null],
    invalid: [1],
  },
  {
    name: "if then else",
    schema: {
      type: "object",
      properties: { kind: { enum: ["a", "b"] }, x: { type: "integer" }, y: { type: "integer" } },
      required: ["kind"],
      if: { properties: { kind: { const: "a" } } },
      ...consequence({ required: ["x"] }),
      else: { required: ["y"] },
    },
    valid: [
      { kind: "a", x: 1 },
      { kind: "b", y: 1 },
      { kind: "b", x: 1, y: 1 },
    ],
    invalid: [{ kind: "a" }, { kind: "a", y: 1 }, { kind: "b" }, { kind: "b", x: 1 }],
  },
  {
    name: "if without else",
    schema: { type: "integer", if: { minimum: 10 }, ...consequence({ multipleOf: 5 }) },
    valid: [3, 9, 10, 15],
    invalid: [11, 12],
  },
  {
    name: "dependentRequired",
    schema: {
      type: "object",
      properties: { a: { type: "null" }, b: { type: "null" } },
      dependentRequired: { a: ["b"] },
    },
    valid: [{}, { b: null }, { a: null, b: null }],
    invalid: [{ a: null }],
  },
  {
    name: "dependentSchemas",
    schema: {
      type: "object",
      properties: { a: { type: "null" }, b: { type: "integer" } },
      dependentSchemas: { a: { properties: { b: { minimum: 5 } }, required: ["b"] } },
    },
    valid: [{}, { b: 1 }, { a: null, b: 5 }],
    invalid: [{ a: null }, { a: null, b: 4 }],
  },
  {
    name: "dependencies",
    schema: {
      $schema: "http://json-schema.org/draft-07/schema#",
      type: "object",
      properties: { a: { type: "null" }, b: { type: "null" }, c: { type: "null" } },
      dependencies: { a: ["b"], b: { required: ["c"] } },
    },
    valid: [{}, { c: null }, { b: null, c: null }, { a: null, b: null, c: null }],
    invalid: [{ a: null }, { a: null, b: null }, { b: null }],
  },
  {
    name: "unevaluatedProperties",
    schema: {
      type: "object",
      properties: { a: { type: "null" } },
      allOf: [{ properties: { b: { type: "null" } } }],
      unevaluatedProperties: false,
    },
    valid: [{}, { a: null, b: null }],
    invalid: [{ c: 1 }],
  },
  {
    name: "unevaluatedItems",
    schema: {
      type: "array",
      allOf: [{ prefixItems: [{ type: "null" }] }],
      unevaluatedItems: { type: "integer" },
    },
    valid: [[], [null], [null, 1, 2]],
    invalid: [[1], [null, "a"]],
  },
  // Test cases for keywords that refer to other schemas.
  {
    name: "$ref to $defs",
    schema: { $ref: "#/$defs/a", $defs: { a: { type: "integer" } } },
    valid: [1],
    invalid: ["a"],
  },
  {
    name: "$ref to definitions, escaped",
    schema: {
      type: "object",
      properties: { x: { $ref: "#/definitions/a~1b%25" } },
      required: ["x"],
      definitions: { "a/b%": { type: "null" } },
    },
    valid: [{ x: null }],
    invalid: [{ x: 1 }],
  },
  {
    name: "$ref beside others",
    schema: { $ref: "#/$defs/a", maximum: 5, $defs: { a: { type: "integer", minimum: 3 } } },
    valid: [3, 5],
    invalid: [2, 6],
  },
  {
    name: "$ref to the root",
    schema: {
      type: "object",
      properties: { value: { type: "integer" }, next: { $ref: "#" } },
      required: ["value"],
      additionalProperties: false,
    },
    valid: [{ value: 1 }, { value: 1, next: { value: 2, next: { value: 3 } } }],
    invalid: [
      { value: 1, next: {} },
      { value: 1, next: { value: 2, next: 3 } },
    ],
  },
  {
    name: "$ref of a tree",
    schema: {
      $ref: "#/$defs/node",
      $defs: {
        node: { anyOf: [{ type: "integer" }, { type: "array", items: { $ref: "#/$defs/node" } }] },
      },
    },
    valid: [1, [], [1, [2, []]]],
    invalid: ["a", [1, ["a"]]],
  },
  {
    name: "$anchor",
    schema: { $ref: "#here", $defs: { a: { $anchor: "here", type: "null" } } },
    valid: [null],
    invalid: [1],
  },
  {
    name: "$id",
    schema: {
      $id: "https://schema.invalid/root.json",
      $ref: "inner.json#/$defs/b",
      $defs: { a: { $id: "inner.json", $defs: { b: { type: "boolean" } } } },
    },
    valid: [true],
    invalid: [1],
  },
  {
    name: "two recursive schemas",
    schema: {
      $ref: "#/$defs/a",
      $defs: {
        a: { type: "object", properties: { b: { $ref: "#/$defs/b" } } },
        b: { type: "array", items: { $ref: "#/$defs/a" } },
      },
    },
    valid: [{}, { b: [{}, { b: [] }] }],
    invalid: [{ b: {} }, { b: [1] }],
  },
  {
    name: "optional property that cannot be",
    schema: { type: "object", properties: { a: false, b: { type: "null" } } },
    valid: [{}, { b: null }],
    invalid: [{ a: 1 }],
  },
  {
    name: "recursion that has to be left out",
    schema: {
      type: "object",
      properties: { a: { $ref: "#/$defs/loop" }, b: { type: "null" } },
      $defs: {
        loop: {
          type: "object",
          properties: { again: { $ref: "#/$defs/loop" } },
          required: ["again"],
        },
      },
    },
    valid: [{}, { b: null }],
    invalid: [{ a: {} }],
  },
  {
    name: "annotations",
    schema: {
      title: "t",
      description: "d",
      default: 3,
      examples: [1],
      $comment: "c",
      deprecated: true,
      readOnly: true,
      writeOnly: false,
      contentMediaType: "x/y",
      contentEncoding: "base64",
      "x-own": { a: 1 },
      unknown: 1,
      type: "null",
    },
    valid: [null],
    invalid: [1],
  },
];
