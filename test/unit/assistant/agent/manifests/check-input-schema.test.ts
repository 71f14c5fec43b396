import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createArgumentValidator } from "../../../../../src/assistant/agent/manifests/argument-validator.ts";
import { checkInputSchema } from "../../../../../src/assistant/agent/manifests/check-input-schema.ts";
import { FaultCollector } from "../../../../../src/assistant/agent/manifests/manifest-faults.ts";
import { UNBOUNDED_AFTER_MS } from "../../../../support/wait-limits.ts";

type Schema = Record<string, unknown>;

function listFaults(schema: Schema): string[] {
  const faults = new FaultCollector();
  const isTaken = checkInputSchema(schema, "", faults);
  const list = faults.list();
  expect(isTaken).toBe(!list.some(({ severity }) => severity === "error"));
  if (isTaken) createArgumentValidator(schema);
  return list.map(({ pointer, message }) => `${pointer}: ${message}`);
}

/** Returns an object schema with the given property `a`. */
const withProperty = (property: unknown, others: Schema = {}): Schema => ({
  type: "object",
  properties: { a: property },
  ...others,
});

function check(schema: Schema, args: Schema): string[] {
  return createArgumentValidator(schema)(args).map(({ path, message }) => `${path}: ${message}`);
}

/** Parsed from JSON, because the linter takes an object literal with a member `then` for a promise. */
const then = (schema: unknown): Schema => JSON.parse(`{"then":${JSON.stringify(schema)}}`);

describe("an input schema is accepted", () => {
  const draft07 = { $schema: "http://json-schema.org/draft-07/schema#" };
  it.each<[string, Schema]>([
    [
      "the example of the specification",
      withProperty({ type: "string", maxLength: 120 }, { required: ["a"] }),
    ],
    ["no arguments", { type: "object", additionalProperties: false }],
    ["a union of types", withProperty({ type: ["string", "null"] })],
    [
      "2020-12 by name",
      { $schema: "https://json-schema.org/draft/2020-12/schema", ...withProperty({}) },
    ],
    [
      "draft-07, with definitions and a list of items",
      {
        ...draft07,
        ...withProperty({ items: [{ type: "string" }], additionalItems: false }),
        definitions: { b: { $ref: "#/definitions/c" }, c: { type: "string" } },
        dependencies: { a: ["b"], b: { required: ["a"] } },
      },
    ],
    [
      "a shared definition",
      withProperty({ $ref: "#/$defs/b" }, { $defs: { b: { type: "integer" } } }),
    ],
    ["extension keywords", withProperty({ type: "string", "x-widget": { const: "area" } })],
    [
      "a property with the name of a keyword",
      withProperty({}, { properties: { "x-a": {}, pattern: {} } }),
    ],
    [
      "the output of pydantic",
      withProperty({ anyOf: [{ type: "string" }, { type: "null" }], default: null }),
    ],
    ["conditions", withProperty({ if: { const: 1 }, ...then({ minimum: 1 }) })],
    ["one of several types", { type: "object", anyOf: [{ required: ["a"] }, { required: ["b"] }] }],
    [
      "a pattern and a format",
      withProperty({ type: "string", pattern: "^\\p{L}+$", format: "email" }),
    ],
    ["unique primitive items", withProperty({ uniqueItems: true, items: { type: "string" } })],
    ["a bounded number of unique items", withProperty({ uniqueItems: true, maxItems: 1000 })],
    [
      "contained items",
      withProperty({ contains: { type: "null" }, minContains: 0, maxContains: 2 }),
    ],
    ["nullable as in OpenAPI", withProperty({ type: "string", nullable: true })],
  ])("in the case: %s", (_, schema) => {
    expect(listFaults(schema)).toEqual([]);
  });

  it("with a warning if a required property is not declared", () => {
    expect(listFaults(withProperty({}, { required: ["aa"] }))).toEqual([
      '/required/0: "aa" is not in properties; did you mean "a"?',
    ]);
  });
});

describe("an input schema is rejected", () => {
  const deep = (levels: number): unknown => (levels === 0 ? {} : { not: deep(levels - 1) });
  /** Each definition refers to the next one twice, so the size of the expanded schema doubles with each definition. */
  const doubling = Object.fromEntries(
    Array.from({ length: 40 }, (_, index) => {
      const next = { $ref: `#/$defs/d${index + 1}` };
      return [`d${index}`, index === 39 ? {} : { allOf: [next, next] }];
    }),
  );
  it.each<[string, Schema, string]>([
    [
      "a list",
      { type: "array" },
      '/type: must be "object", because arguments are an object, not "array"',
    ],
    ["an unknown draft", { $schema: "urn:x", type: "object" }, "/$schema: must be left out"],
    [
      "a wrong type",
      withProperty({ type: "strng" }),
      '"strng" is not a type; did you mean "string"?',
    ],
    [
      "an unknown keyword",
      withProperty({ maxlength: 1 }),
      '/properties/a/maxlength: "maxlength" is not a keyword of JSON Schema 2020-12; did you mean "maxLength"?',
    ],
    ["an invalid value", withProperty({ maxLength: -1 }), "/properties/a/maxLength: must be >= 0"],
    [
      "a property whose schema is a number",
      withProperty(1),
      "/properties/a: must be a schema, not 1",
    ],
    [
      "a remote reference",
      withProperty({ $ref: "http://example.org/a" }),
      '/properties/a/$ref: "http://example.org/a" points outside the schema',
    ],
    [
      "an unresolvable reference",
      withProperty({ $ref: "#/$defs/b" }),
      '/properties/a/$ref: "#/$defs/b" does not point to a schema',
    ],
    [
      "a reference to something that is not a schema",
      withProperty(
        { $ref: "#/properties/b/const" },
        { properties: { a: { $ref: "#/properties/b/const" }, b: { const: {} } } },
      ),
      "does not point to a schema",
    ],
    [
      "itself",
      withProperty({ $ref: "#" }),
      "/properties/a/$ref: the schema contains itself, so its size has no bound",
    ],
    [
      "a definition that contains itself in two steps and is unused",
      withProperty(
        {},
        { $defs: { b: { items: { $ref: "#/$defs/c" } }, c: { not: { $ref: "#/$defs/b" } } } },
      ),
      "contains itself",
    ],
    [
      "an id of a subschema",
      withProperty({ $id: "a" }),
      '/properties/a/$id: "$id" is not supported',
    ],
    ["a dynamic reference", withProperty({ $dynamicRef: "#a" }), '"$dynamicRef" is not supported'],
    ["an asynchronous schema", { $async: true, type: "object" }, '"$async" is not a keyword'],
    [
      "references that double forty times",
      withProperty({ $ref: "#/$defs/d0" }, { $defs: doubling }),
      "more than 5000 schemas",
    ],
    ["depth", withProperty(deep(31)), "schemas are nested deeper than 32 levels"],
    ["size", withProperty({ description: "x".repeat(2 ** 16) }), "larger than 64 KiB"],
    [
      "look-ahead",
      withProperty({ pattern: "(?=a)b" }),
      "/properties/a/pattern: is not an RE2 pattern",
    ],
    ["back references", withProperty({ pattern: "(a)\\1" }), "is not an RE2 pattern"],
    ["an invalid pattern", withProperty({ pattern: "(" }), "is not an RE2 pattern"],
    [
      "a huge pattern",
      withProperty({ pattern: "a".repeat(1001) }),
      "the pattern is longer than 1000 characters",
    ],
    [
      "too many repetitions",
      withProperty({ pattern: "((a{100}){100}){100}" }),
      "is not an RE2 pattern",
    ],
    [
      "an unknown format",
      withProperty({ format: "emial" }),
      'there is no format "emial"; did you mean "email"?',
    ],
    [
      "unique items of any type",
      withProperty({ uniqueItems: true }),
      "/properties/a/uniqueItems: compares all items pairwise",
    ],
    [
      "a then without an if",
      withProperty(then({})),
      '/properties/a/then: has no effect without "if"',
    ],
    [
      "an if without a then",
      withProperty({ if: {} }),
      '/properties/a/if: has no effect without "then" or "else"',
    ],
    [
      "an enum without values",
      withProperty({ enum: [] }),
      "/properties/a/enum: must have at least one value",
    ],
    [
      "a pattern that matches a declared property",
      { type: "object", properties: { ab: {} }, patternProperties: { "^a": {} } },
      '/patternProperties/^a: also matches "ab", which is in properties',
    ],
  ])("for the fault: %s", (_, schema, fault) => {
    expect(listFaults(schema).join("\n")).toContain(fault);
  });
});

describe("every accepted schema", () => {
  const keyword = fc.constantFrom(
    ..."type properties items anyOf allOf not if then else $ref $defs definitions enum const required".split(
      " ",
    ),
    ..."additionalProperties patternProperties pattern format uniqueItems maxItems minContains".split(
      " ",
    ),
    ..."contains maxContains nullable prefixItems dependentRequired dependentSchemas $schema".split(
      " ",
    ),
    ..."additionalItems dependencies unevaluatedProperties default x-a minLength multipleOf".split(
      " ",
    ),
  );
  const { value } = fc.letrec<{ value: unknown; schema: unknown }>((tie) => ({
    schema: fc.dictionary(keyword, tie("value"), { maxKeys: 4, noNullPrototype: true }),
    value: fc.oneof(
      { maxDepth: 5, withCrossShrink: true },
      fc.constantFrom<unknown>(true, 1, "object", "string", "#/$defs/a", "#", "^a", "email", null),
      fc.constantFrom<unknown>(
        ["string", "null"],
        [],
        ["a"],
        "integer",
        "http://json-schema.org/draft-07/schema#",
      ),
      tie("schema"),
      fc.dictionary(fc.constantFrom("a", "b", "^a", "toString", "valueOf"), tie("schema"), {
        maxKeys: 3,
        noNullPrototype: true,
      }),
      fc.array(tie("schema"), { maxLength: 3 }),
    ),
  }));

  it("compiles to a validator that never throws, whatever the arguments are", () => {
    let taken = 0;
    const schema = fc
      .dictionary(keyword, value, { maxKeys: 5, noNullPrototype: true })
      .map((random): Schema => ({ ...random, type: "object" }));
    fc.assert(
      fc.property(
        schema,
        fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 })),
        (given, args) => {
          if (!checkInputSchema(given, "", new FaultCollector())) return;
          taken += 1;
          expect(Array.isArray(createArgumentValidator(given)(args))).toBe(true);
        },
      ),
      { numRuns: Number(process.env["BERTH_MANIFEST_RUNS"] ?? 3000) },
    );
    expect(taken).toBeGreaterThan(200);
  });
});

describe("the validation of arguments", () => {
  it("reports the place and the reason of each error", () => {
    const schema = withProperty(
      { type: "string", maxLength: 3, pattern: "^a+$" },
      {
        properties: { a: { type: "string", maxLength: 3 }, tier: { enum: ["x", 1] }, "b/c": {} },
        required: ["b/c"],
        additionalProperties: false,
      },
    );
    expect(check(schema, { a: "abcd", tier: 2, teir: 1 })).toEqual([
      "/b~1c: is missing",
      '/teir: is not an argument of this tool; did you mean "tier"?',
      "/a: must NOT have more than 3 characters",
      '/tier: must be one of "x", 1',
    ]);
    expect(check(schema, { a: "abc", "b/c": null })).toEqual([]);
  });

  it("neither converts nor completes the arguments", () => {
    const schema = withProperty({ type: "integer", default: 1 });
    const args: Schema = {};
    expect(check(schema, args)).toEqual([]);
    expect(args).toEqual({});
    expect(check(schema, { a: "1" })).toEqual(["/a: must be integer"]);
  });

  it("does not treat properties of the prototype as arguments", () => {
    const schema = withProperty({}, { required: ["constructor"] });
    expect(check(schema, {})).toEqual(["/constructor: is missing"]);
  });

  it("refuses arguments with members such as `valueOf`, which the comparison of values would call", () => {
    const schema = withProperty({ enum: [{ valueOf: 1 }] });
    expect(check(schema, { a: { valueOf: 1 } })).toEqual([
      ': holds a member "valueOf" or "toString", which is not allowed',
    ]);
  });

  it("takes little time for any pattern and format", () => {
    const started = performance.now();
    const text = "a".repeat(100_000);
    expect(
      check(withProperty({ type: "string", pattern: "^(a+)+$" }), { a: `${text}!` }),
    ).toHaveLength(1);
    expect(check(withProperty({ type: "string", pattern: "^(a|a)*$" }), { a: text })).toEqual([]);
    expect(check(withProperty({ type: "string", format: "url" }), { a: `http://${text}` })).toEqual(
      ['/a: must have the format "url"'],
    );
    expect(performance.now() - started).toBeLessThan(UNBOUNDED_AFTER_MS);
  });

  it("reports at most twenty errors", () => {
    const schema = withProperty({ items: { type: "string" } });
    expect(check(schema, { a: Array.from({ length: 1000 }, (_, index) => index) })).toHaveLength(
      20,
    );
  });

  it("uses the patterns of each tool's own schema", () => {
    const schema = withProperty(
      {},
      {
        properties: {
          a: { type: "string", pattern: "^a$" },
          b: { type: "string", pattern: "^b$" },
        },
      },
    );
    expect(check(schema, { a: "a", b: "a" })).toEqual(['/b: must match pattern "^b$"']);
  });
});
