import { describe, expect, test } from "vitest";
import { AssistantError } from "../../../../../src/assistant/assistant-error.ts";
import { compileSchema } from "../../../../../src/assistant/inference/schema-grammar/compile-schema.ts";
import { scalarGrammar } from "../../../../../src/assistant/inference/schema-grammar/scalar-grammar.ts";

function compileRefused(schema: unknown): AssistantError {
  try {
    compileSchema(schema, scalarGrammar);
  } catch (error) {
    if (error instanceof AssistantError) return error;
    throw error;
  }
  throw new Error("the schema was not refused");
}

/** Each schema with the keyword and the JSON Pointer that its refusal names. */
const refused: readonly (readonly [unknown, string, string])[] = [
  [{ type: "array", uniqueItems: true }, "uniqueItems", "#"],
  [
    { properties: { a: { type: "array", items: { type: "string" }, uniqueItems: true } } },
    "uniqueItems",
    "#/properties/a",
  ],
  [{ type: "string", format: "color" }, "format", "#/format"],
  [{ type: "string", format: "uri-reference", pattern: "^/" }, "format", "#/format"],
  [{ type: "string", format: "color", allOf: [{ maxLength: 7 }] }, "format", "#/format"],
  [{ type: "string", pattern: "(" }, "pattern", "#/pattern"],
  [{ type: "string", pattern: "(a)\\1" }, "pattern", "#/pattern"],
  [{ $dynamicRef: "#a" }, "$dynamicRef", "#/$dynamicRef"],
  [{ allOf: [{ $recursiveRef: "#" }] }, "$recursiveRef", "#/allOf/0/$recursiveRef"],
  [{ $ref: "https://example.invalid/other.json" }, "$ref", "#/$ref"],
  [{ $ref: "#/$defs/none" }, "$ref", "#/$ref"],
  [{ items: { $ref: "#nowhere" } }, "$ref", "#/items/$ref"],
  [{ $ref: "#" }, "$ref", "#"],
  [{ allOf: [{ anyOf: [{ $ref: "#" }] }] }, "$ref", "#"],
  [{ not: { multipleOf: 3 } }, "multipleOf", "#/not/multipleOf"],
  [{ not: { type: "integer" } }, "type", "#/not/type"],
  [{ not: { items: { type: "null" } } }, "items", "#/not/items"],
  [{ not: { const: { a: 1 } } }, "const", "#/not/const"],
  [{ if: { format: "date" }, else: false }, "format", "#/if/format"],
  [
    {
      oneOf: [
        { type: "array", items: { type: "integer" } },
        { type: "array", items: { type: "number" } },
      ],
    },
    "oneOf",
    "#/oneOf",
  ],
  [{ type: "object", minProperties: 2 }, "minProperties", "#"],
  [{ type: "array", maxItems: 2001 }, "maxItems", "#"],
  [{ type: "array", minItems: 5000 }, "minItems", "#"],
  [{ type: "array", contains: { const: 1 }, prefixItems: [{}] }, "contains", "#/contains"],
  [{ type: "any" }, "type", "#/type"],
  [{ type: "integer", minimum: "3" }, "minimum", "#/minimum"],
  [{ type: "object", required: true }, "required", "#/required"],
  [{ properties: { a: 1 } }, "a", "#/properties/a"],
  [{ items: "string" }, "items", "#/items"],
  [{ type: "array", prefixItems: { a: 1 } }, "prefixItems", "#/prefixItems"],
  [{ anyOf: { a: 1 } }, "anyOf", "#/anyOf"],
  [{ minLength: -1 }, "minLength", "#/minLength"],
  [{ multipleOf: 0 }, "multipleOf", "#/multipleOf"],
  [{ extends: { type: "null" } }, "extends", "#/extends"],
];

test.each(refused)(
  "the schema %j is refused for the keyword %s at %s",
  (schema, keyword, pointer) => {
    const error = compileRefused(schema);
    expect(error).toMatchObject({ code: "unsupported_schema" });
    expect(String(error)).toContain(`"${keyword}" at ${pointer} `);
  },
);

describe("schemas that no value satisfies", () => {
  test.each([
    [false],
    [{ not: {} }],
    [{ type: [] }],
    [{ enum: [] }],
    [{ const: 1, type: "string" }],
    [{ type: "string", minLength: 3, maxLength: 2 }],
    [{ type: "string", pattern: "^a$", minLength: 2 }],
    [{ type: "integer", minimum: 3, maximum: 2 }],
    [{ type: "integer", exclusiveMinimum: 2, exclusiveMaximum: 3 }],
    [{ type: "array", minItems: 2, maxItems: 1 }],
    [{ type: "array", items: false, minItems: 1 }],
    [{ type: "array", items: { enum: [1, 2] }, uniqueItems: true, minItems: 3 }],
    [{ type: "array", items: { const: 1 }, contains: { const: 2 } }],
    [{ type: "object", properties: { a: false }, required: ["a"] }],
    [{ type: "object", required: ["a", "b"], maxProperties: 1 }],
    [{ type: "object", properties: { a: {} }, additionalProperties: false, minProperties: 2 }],
    [{ type: "object", required: ["A"], propertyNames: { pattern: "^[a-z]+$" } }],
    [{ allOf: [{ type: "string" }, { type: "number" }] }],
    [{ type: "object", properties: { a: { $ref: "#" } }, required: ["a"] }],
    [{ type: "array", items: { $ref: "#" }, minItems: 1 }],
    [{ oneOf: [true, true] }],
  ])("are refused: %j", (schema) => {
    const error = compileRefused(schema);
    expect(error).toMatchObject({
      code: "unsupported_schema",
      message: expect.stringMatching(/No value of finite size satisfies/),
    });
  });
});
