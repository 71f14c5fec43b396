import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { reduceSchema } from "../../../../../src/assistant/agent/manifests/reduce-schema.ts";
import { compileInputSchema } from "../../../../../src/assistant/agent/manifests/schema-compiler.ts";
import type { JsonObject } from "../../../../../src/assistant/agent/port.ts";
import { canonicalJson } from "../../../../../src/base/canonical-json.ts";
import { isObject } from "../../../../../src/base/json.ts";
import { arbitrarySchemaAndDocument } from "../../../../support/schema-arbitrary.ts";

const reduce = (schema: JsonObject) => canonicalJson(reduceSchema(schema));
const withProperty = (property: unknown) => ({ type: "object", properties: { a: property } });

describe("two schemas have the same reduced form, without annotations,", () => {
  it.each<[string, JsonObject, JsonObject]>([
    [
      "titles, as Pydantic adds them",
      { title: "searchArguments", ...withProperty({ title: "A", type: "string" }) },
      withProperty({ type: "string" }),
    ],
    [
      "descriptions, as the Go SDK adds them",
      withProperty({ type: ["null", "string"], description: "the text" }),
      withProperty({ type: ["string", "null"] }),
    ],
    [
      "other annotations",
      withProperty({
        default: 1,
        examples: [1],
        deprecated: true,
        readOnly: false,
        writeOnly: false,
        $comment: "c",
        "x-order": 3,
        discriminator: { propertyName: "kind" },
        maximum: 5,
      }),
      withProperty({ maximum: 5 }),
    ],
    [
      "annotations at any depth",
      withProperty({
        anyOf: [
          { items: { title: "T" } },
          { additionalProperties: { title: "T", not: { title: "T" } } },
        ],
        prefixItems: [{ description: "D" }],
      }),
      withProperty({
        anyOf: [{ items: {} }, { additionalProperties: { not: {} } }],
        prefixItems: [{}],
      }),
    ],
    [
      "annotations in definitions",
      { ...withProperty({ $ref: "#/$defs/B" }), $defs: { B: { title: "B", type: "null" } } },
      { ...withProperty({ $ref: "#/$defs/B" }), $defs: { B: { type: "null" } } },
    ],
    [
      "the order of required properties and of values",
      { type: "object", required: ["b", "a"], properties: { a: { enum: [2, "1"] } } },
      { type: "object", required: ["a", "b"], properties: { a: { enum: ["1", 2] } } },
    ],
    [
      "empty keywords",
      { type: "object", properties: {}, required: [], $defs: {} },
      { type: "object" },
    ],
    ["true and {}", withProperty(true), withProperty({ title: "A" })],
    [
      "dependencies of draft-07",
      {
        $schema: "http://json-schema.org/draft-07/schema#",
        dependencies: { a: ["b"], c: { title: "C" } },
      },
      { $schema: "http://json-schema.org/draft-07/schema#", dependencies: { a: ["b"], c: {} } },
    ],
  ])("if they differ only in %s", (_, one, other) => {
    expect(reduce(one)).toBe(reduce(other));
  });
});

describe("two schemas have different reduced forms", () => {
  it.each<[string, JsonObject, JsonObject]>([
    ["a property named title", withProperty({}), { type: "object", properties: { title: {} } }],
    [
      "the schema of a property named description",
      { properties: { description: { type: "string" } } },
      { properties: { description: { type: "integer" } } },
    ],
    ["a constant that looks like a schema", { const: { title: "a" } }, { const: { title: "b" } }],
    ["a value that looks like a schema", { enum: [{ title: "a" }] }, { enum: [{ title: "b" }] }],
    ["a limit", withProperty({ maxLength: 3 }), withProperty({ maxLength: 4 })],
    ["a format", withProperty({ format: "date" }), withProperty({})],
    ["required properties", { required: ["a"] }, { required: ["b"] }],
    ["the order of tuples", { prefixItems: [{}, false] }, { prefixItems: [false, {}] }],
    ["further properties", { additionalProperties: false }, {}],
    ["a keyword that JSON Schema does not define", { only: ["a"] }, {}],
    ["the key __proto__", JSON.parse('{"properties":{"__proto__":{"maximum":1}}}'), {}],
  ])("if they differ in %s", (_, one, other) => {
    expect(reduce(one)).not.toBe(reduce(other));
  });
});

it("the reduced form of a schema accepts the same documents as the schema", () => {
  const pair = arbitrarySchemaAndDocument(2);
  fc.assert(
    fc.property(pair, pair, ({ schema, document }, other) => {
      // Some generated schemas have an `$id`, which manifests must not have.
      fc.pre(!canonicalJson(schema).includes('"$id"'));
      const described = { title: "T", ...schema, description: "D" };
      const reduced = reduceSchema(described);
      if (!isObject(reduced)) throw new Error("a schema must stay an object");
      const [before, after] = [compileInputSchema(described), compileInputSchema(reduced)];
      for (const value of [document, other.document]) expect(after(value)).toBe(before(value));
      expect(after(document)).toBe(true);
    }),
    { numRuns: 40 },
  );
});
