import { consequence } from "./schema-cases.ts";

/** A schema that is designed to be expensive: it must be refused, or compiled within the limits. */
export interface HostileSchema {
  readonly name: string;
  readonly schema: unknown;
  readonly outcome: "refused" | "compiled" | "refused or compiled";
}

/** Returns `levels` definitions, each of which refers to the next. */
function chainDefinitions(
  levels: number,
  level: (next: string) => unknown,
  end: unknown = { type: "null" },
) {
  const $defs: Record<string, unknown> = { [`d${levels}`]: end };
  for (let index = 0; index < levels; index += 1)
    $defs[`d${index}`] = level(`#/$defs/d${index + 1}`);
  return { $ref: "#/$defs/d0", $defs };
}

function nestSchema(
  depth: number,
  wrap: (inner: unknown) => unknown,
  end: unknown = true,
): unknown {
  let schema = end;
  for (let index = 0; index < depth; index += 1) schema = wrap(schema);
  return schema;
}

function numberProperties<Value>(
  count: number,
  value: (index: number) => Value,
): Record<string, Value> {
  return Object.fromEntries(
    Array.from({ length: count }, (_, index) => [`p${index}`, value(index)]),
  );
}

const referTwice = (keyword: string) => (next: string) => ({
  [keyword]: [{ $ref: next }, { $ref: next }],
});

export const hostileSchemas: readonly HostileSchema[] = [
  { name: "allOf that holds itself", schema: { allOf: [{ $ref: "#" }] }, outcome: "refused" },
  {
    name: "allOf that holds itself twice, with properties",
    schema: {
      type: "object",
      properties: { a: { $ref: "#" } },
      allOf: [{ $ref: "#/properties/a" }, { $ref: "#" }],
    },
    outcome: "refused",
  },
  {
    name: "two schemas that are each other",
    schema: {
      $ref: "#/$defs/a",
      $defs: { a: { $ref: "#/$defs/b" }, b: { anyOf: [{ $ref: "#/$defs/a" }] } },
    },
    outcome: "refused",
  },
  { name: "not itself", schema: { not: { $ref: "#" } }, outcome: "refused" },
  {
    name: "2^40 references by allOf",
    schema: chainDefinitions(40, referTwice("allOf")),
    outcome: "compiled",
  },
  {
    name: "2^40 references by anyOf",
    schema: chainDefinitions(40, referTwice("anyOf")),
    outcome: "compiled",
  },
  {
    name: "2^40 references by oneOf",
    schema: chainDefinitions(40, referTwice("oneOf")),
    outcome: "refused",
  },
  {
    name: "2^40 references by properties",
    schema: chainDefinitions(40, (next) => ({
      type: "object",
      properties: { a: { $ref: next }, b: { $ref: next } },
    })),
    outcome: "compiled",
  },
  {
    name: "a thousand references in a row",
    schema: chainDefinitions(1_000, (next) => ({ $ref: next })),
    outcome: "refused",
  },
  {
    name: "unions that multiply out",
    schema: {
      allOf: Array.from({ length: 12 }, (_, index) => ({
        anyOf: Array.from({ length: 4 }, (__, option) => ({ required: [`${index}-${option}`] })),
      })),
    },
    outcome: "refused",
  },
  {
    name: "conditions that multiply out",
    schema: {
      type: "object",
      allOf: Array.from({ length: 30 }, (_, index) => ({
        if: { required: [`a${index}`] },
        ...consequence({ required: [`b${index}`] }),
      })),
    },
    outcome: "refused",
  },
  {
    name: "dependencies that multiply out",
    schema: {
      type: "object",
      properties: numberProperties(30, () => ({})),
      dependentRequired: numberProperties(30, (index) => [`p${(index + 1) % 30}`]),
    },
    outcome: "refused or compiled",
  },
  {
    name: "recursion that forks",
    schema: {
      type: "array",
      items: { anyOf: [{ $ref: "#" }, { type: "array", items: { $ref: "#" }, maxItems: 3 }] },
    },
    outcome: "refused",
  },
  {
    name: "recursion through objects that differ too late",
    schema: {
      anyOf: [
        { type: "null" },
        { type: "object", properties: { a: { $ref: "#" }, b: { type: "integer" } } },
        { type: "object", properties: { a: { $ref: "#" }, c: { type: "integer" } } },
      ],
    },
    outcome: "refused",
  },
  {
    name: "a hundred levels",
    schema: nestSchema(100, (inner) => ({ items: inner })),
    outcome: "refused",
  },
  {
    name: "a hundred thousand levels",
    schema: nestSchema(100_000, (inner) => ({ not: inner })),
    outcome: "refused",
  },
  {
    name: "thirty levels",
    schema: nestSchema(30, (inner) => ({ type: "array", items: inner })),
    outcome: "compiled",
  },
  {
    name: "thirty negations",
    schema: nestSchema(30, (inner) => ({ not: inner }), { type: "null" }),
    outcome: "compiled",
  },
  {
    name: "an enum of 9,000 strings",
    schema: { enum: Array.from({ length: 9_000 }, (_, index) => `value number ${index * 7919}`) },
    outcome: "refused or compiled",
  },
  {
    name: "an enum of 2,000 strings",
    schema: { enum: Array.from({ length: 2_000 }, (_, index) => `value ${index}`) },
    outcome: "compiled",
  },
  {
    name: "an enum of one long string's beginnings",
    schema: { enum: Array.from({ length: 2_000 }, (_, index) => "a".repeat(index)) },
    outcome: "refused or compiled",
  },
  {
    name: "an enum of 20,000 numbers",
    schema: { enum: Array.from({ length: 20_000 }, (_, index) => index) },
    outcome: "refused",
  },
  {
    name: "a constant of a megabyte",
    schema: { const: "x".repeat(1_000_000) },
    outcome: "refused",
  },
  {
    name: "10,000 properties",
    schema: { type: "object", properties: numberProperties(10_000, () => true) },
    outcome: "refused",
  },
  {
    name: "3,000 properties",
    schema: {
      type: "object",
      properties: numberProperties(3_000, () => ({ type: "integer" })),
      additionalProperties: false,
    },
    outcome: "refused or compiled",
  },
  {
    name: "300 properties",
    schema: { type: "object", properties: numberProperties(300, () => ({ type: "integer" })) },
    outcome: "compiled",
  },
  {
    name: "500 properties, counted",
    schema: { type: "object", properties: numberProperties(500, () => true), minProperties: 250 },
    outcome: "refused",
  },
  {
    name: "a name of a megabyte",
    schema: { type: "object", properties: { ["n".repeat(1_000_000)]: true } },
    outcome: "refused",
  },
  {
    name: "40 patterns of names",
    schema: {
      type: "object",
      patternProperties: Object.fromEntries(
        Array.from({ length: 40 }, (_, index) => [`a{${index}}`, true]),
      ),
    },
    outcome: "refused",
  },
  {
    name: "a pattern with nested repetitions",
    schema: { type: "string", pattern: "^((a{1,50}){1,50}){1,50}$" },
    outcome: "refused or compiled",
  },
  {
    name: "a pattern that backtracks",
    schema: { type: "string", pattern: "^(a+)+$" },
    outcome: "compiled",
  },
  {
    name: "a pattern of exponentially many states",
    schema: { type: "string", pattern: "(a|b)*a(a|b){40}$" },
    outcome: "refused or compiled",
  },
  {
    name: "a pattern of 100,000 characters",
    schema: { type: "string", pattern: "(a|b)?".repeat(16_000) },
    outcome: "refused or compiled",
  },
  {
    name: "a pattern of 100,000 brackets",
    schema: { type: "string", pattern: "(".repeat(50_000) + ")".repeat(50_000) },
    outcome: "refused or compiled",
  },
  {
    name: "many patterns at once",
    schema: {
      type: "string",
      allOf: Array.from({ length: 12 }, (_, index) => ({
        pattern: `${String.fromCodePoint(97 + index)}.{${index + 3}}z`,
      })),
    },
    outcome: "refused or compiled",
  },
  {
    name: "items without measure",
    schema: { type: "array", minItems: 1_000_000_000 },
    outcome: "refused",
  },
  {
    name: "counted repetitions within each other",
    schema: nestSchema(
      20,
      (inner) => ({ type: "array", items: inner, minItems: 1_000, maxItems: 2_000 }),
      { type: "string", minLength: 1_000, maxLength: 2_000 },
    ),
    outcome: "refused or compiled",
  },
  {
    name: "lengths without measure",
    schema: { type: "string", minLength: 1_000_000_000 },
    outcome: "refused",
  },
  {
    name: "an integer between far bounds",
    schema: { type: "integer", minimum: -1e300, maximum: 1e300, multipleOf: 7 },
    outcome: "refused or compiled",
  },
  {
    name: "multiples of a huge number",
    schema: { type: "integer", multipleOf: 999_999_937 },
    outcome: "refused or compiled",
  },
  {
    name: "multiples of a tiny number",
    schema: { type: "number", multipleOf: 1e-300 },
    outcome: "refused or compiled",
  },
  {
    name: "contains with large counts",
    schema: { type: "array", contains: { const: 1 }, minContains: 1_000, maxItems: 2_000 },
    outcome: "refused",
  },
  {
    name: "a unique enum of 30",
    schema: {
      type: "array",
      uniqueItems: true,
      items: { enum: Array.from({ length: 30 }, (_, index) => index) },
    },
    outcome: "refused",
  },
  {
    name: "names of Object.prototype",
    schema: JSON.parse(
      '{"type":"object","properties":{"__proto__":{"type":"null"},"constructor":{"type":"null"}},"required":["__proto__"]}',
    ),
    outcome: "compiled",
  },
  {
    name: "a reference through Object.prototype",
    schema: { $ref: "#/constructor/prototype" },
    outcome: "refused",
  },
  { name: "a number for a schema", schema: 3, outcome: "refused" },
  { name: "nothing for a schema", schema: undefined, outcome: "refused" },
];
