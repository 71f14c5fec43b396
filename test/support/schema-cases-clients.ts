import type { SchemaCase } from "./schema-cases.ts";

const zodEmail =
  "^(?:[A-Za-z0-9_'+\\-]+\\.)*[A-Za-z0-9_'+\\-]*[A-Za-z0-9_+-]@(?:[A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$";
const zodDate =
  "^(?:(?:\\d\\d[2468][048]|\\d\\d[13579][26]|\\d\\d0[48]|[02468][048]00|[13579][26]00)-02-29|\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|(?:02)-(?:0[1-9]|1\\d|2[0-8])))$";

const zodBase64 = "^$|^(?:[0-9a-zA-Z+/]{4})*(?:(?:[0-9a-zA-Z+/]{2}==)|(?:[0-9a-zA-Z+/]{3}=))?$";

const zodValue = {
  id: "V1StGXR8_Z5jdHi6B-myT",
  mail: "ann@example.org",
  path: "/a/b.ts",
  data: "aGk=",
  when: "2024-02-29",
  pet: { kind: "cat", lives: 9 },
  node: { value: 1, next: { value: 2, next: null } },
};

/** A schema as Zod 4 and the AI SDK generate it. */
const zod = (defs: "$defs" | "definitions", $schema: string) => ({
  $schema,
  type: "object",
  properties: {
    id: { type: "string", format: "nanoid", pattern: "^[a-zA-Z0-9_-]{21}$" },
    mail: { type: "string", format: "email", pattern: zodEmail },
    path: {
      type: "string",
      maxLength: 12,
      format: "ends_with",
      allOf: [{ pattern: "^\\/a.*" }, { pattern: ".*\\.ts$" }],
    },
    data: {
      type: "string",
      maxLength: 8,
      format: "base64",
      contentEncoding: "base64",
      pattern: zodBase64,
    },
    when: { type: "string", format: "date", pattern: zodDate },
    pet: {
      oneOf: [
        {
          type: "object",
          properties: {
            kind: { type: "string", const: "cat" },
            lives: { type: "integer", minimum: 1, maximum: 9 },
          },
          required: ["kind", "lives"],
          additionalProperties: false,
        },
        {
          type: "object",
          properties: { kind: { type: "string", const: "dog" } },
          required: ["kind"],
          additionalProperties: false,
        },
      ],
    },
    node: { $ref: `#/${defs}/__schema0` },
    note: { default: "-", type: "string", maxLength: 3 },
  },
  required: ["id", "mail", "path", "data", "when", "pet", "node"],
  additionalProperties: false,
  [defs]: {
    // oxlint-disable-next-line no-underscore-dangle
    __schema0: {
      type: "object",
      properties: {
        value: { type: "integer", minimum: 0, maximum: 9 },
        next: { anyOf: [{ $ref: `#/${defs}/__schema0` }, { type: "null" }] },
      },
      required: ["value", "next"],
      additionalProperties: false,
    },
  },
});

const zodCase = {
  valid: [zodValue, { ...zodValue, data: "", pet: { kind: "dog" }, note: "é" }],
  invalid: [
    { ...zodValue, id: "short" },
    { ...zodValue, mail: "ann" },
    { ...zodValue, path: "/a/b.js" },
    { ...zodValue, data: "a" },
    { ...zodValue, when: "2023-02-29" },
    { ...zodValue, pet: { kind: "dog", lives: 9 } },
    { ...zodValue, node: { value: 1 } },
    { ...zodValue, more: 1 },
  ],
};

const pydanticValue = {
  id: "123e4567-e89b-42d3-a456-426614174000",
  paid: "12.50",
  home: "/home/ann",
  pin: "1234",
  pet: { kind: "dog", good: true },
};

/** Schemas as client libraries generate them, with all their annotations. */
export const clientCases: readonly SchemaCase[] = [
  {
    name: "Zod, 2020-12",
    schema: zod("$defs", "https://json-schema.org/draft/2020-12/schema"),
    ...zodCase,
  },
  {
    name: "Zod, draft 7",
    schema: zod("definitions", "http://json-schema.org/draft-07/schema#"),
    ...zodCase,
  },
  {
    name: "Pydantic",
    schema: {
      $defs: {
        Cat: {
          description: "A cat.",
          properties: {
            kind: { const: "cat", title: "Kind", type: "string" },
            lives: { maximum: 9, minimum: 1, title: "Lives", type: "integer" },
          },
          required: ["kind", "lives"],
          title: "Cat",
          type: "object",
        },
        Dog: {
          properties: {
            kind: { const: "dog", default: "dog", title: "Kind", type: "string" },
            good: {
              anyOf: [{ type: "boolean" }, { type: "null" }],
              default: null,
              title: "Good",
            },
          },
          title: "Dog",
          type: "object",
        },
      },
      properties: {
        id: { format: "uuid4", title: "Id", type: "string" },
        paid: {
          anyOf: [
            { type: "number" },
            { pattern: "^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$", type: "string" },
          ],
          title: "Paid",
        },
        home: { format: "path", title: "Home", type: "string" },
        pin: { format: "password", title: "Pin", type: "string", writeOnly: true },
        pet: {
          discriminator: {
            mapping: { cat: "#/$defs/Cat", dog: "#/$defs/Dog" },
            propertyName: "kind",
          },
          oneOf: [{ $ref: "#/$defs/Cat" }, { $ref: "#/$defs/Dog" }],
          title: "Pet",
        },
      },
      required: ["id", "paid", "home", "pin", "pet"],
      title: "Owner",
      type: "object",
    },
    valid: [
      pydanticValue,
      { ...pydanticValue, paid: 3.5, pet: {} },
      { ...pydanticValue, pet: { kind: "cat", lives: 3 } },
    ],
    invalid: [
      { ...pydanticValue, paid: "-." },
      { ...pydanticValue, paid: "1,5" },
      { ...pydanticValue, pet: { kind: "cat" } },
      { ...pydanticValue, pet: { kind: "bird" } },
    ],
    outside: [
      { ...pydanticValue, id: "123e4567-e89b-12d3-a456-426614174000" },
      { ...pydanticValue, more: 1 },
    ],
  },
];
