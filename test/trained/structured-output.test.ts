import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import type { AssistantProcess } from "../support/assistant-process.ts";
import { replaceChatTemplate } from "../support/gguf/replace-chat-template.ts";
import { chatTemplate } from "../support/gguf/sample-chat-template.ts";
import { startAssistantWith } from "../support/trained-models/trained-assistant.ts";

let folder: string;
let plain: AssistantProcess;
let withTools: AssistantProcess;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-template-"));
  const { smollm2 } = inject("trainedModels");
  const withTemplate = join(folder, "smollm2.gguf");
  await replaceChatTemplate(smollm2, withTemplate, chatTemplate);
  plain = await startAssistantWith("smollm2", smollm2);
  withTools = await startAssistantWith("smollm2", withTemplate);
});
afterAll(async () => {
  await plain[Symbol.asyncDispose]();
  await withTools[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

const person = {
  type: "object",
  properties: {
    name: { type: "string", minLength: 1, maxLength: 30 },
    age: { type: "integer", minimum: 0, maximum: 130 },
    email: { type: "string", format: "email" },
  },
  required: ["name", "age", "email"],
  additionalProperties: false,
};

/**
 * Requests to the model. Each has a description of the keywords in its schema, the text of the request, and the schema.
 */
const cases: readonly (readonly [keywords: string, request: string, schema: object])[] = [
  ["objects with bounded members", "Describe a person named Ada.", person],
  [
    "arrays with bounds",
    "List three fruits.",
    {
      type: "array",
      items: { type: "string", maxLength: 20, pattern: "^[a-z ]+$" },
      minItems: 3,
      maxItems: 3,
    },
  ],
  [
    "enumerations",
    "Is the sea wet?",
    { type: "object", properties: { answer: { enum: ["yes", "no"] } }, required: ["answer"] },
  ],
  [
    "dates and times",
    "When did the meeting on the second of May 2024 at noon begin?",
    {
      type: "object",
      properties: {
        day: { type: "string", format: "date" },
        at: { type: "string", format: "date-time" },
        id: { type: "string", format: "uuid" },
      },
      required: ["day", "at", "id"],
      additionalProperties: false,
    },
  ],
  [
    "references that recur",
    "Write a small family tree.",
    {
      $ref: "#/$defs/node",
      $defs: {
        node: {
          type: "object",
          properties: {
            name: { type: "string", maxLength: 12 },
            children: { type: "array", items: { $ref: "#/$defs/node" }, maxItems: 2 },
          },
          required: ["name"],
          additionalProperties: false,
        },
      },
    },
  ],
  [
    "alternatives",
    "Give a number or a word.",
    {
      anyOf: [
        { type: "integer", multipleOf: 5 },
        { type: "string", maxLength: 8 },
        { type: "null" },
      ],
    },
  ],
  [
    "dependent members",
    "Pay by card.",
    {
      type: "object",
      properties: {
        by: { enum: ["card", "cash"] },
        number: { type: "string", pattern: "^\\d{4}$" },
      },
      required: ["by"],
      additionalProperties: false,
      dependentRequired: { by: ["number"] },
    },
  ],
  [
    "numbers with bounds",
    "What is the temperature of the room?",
    {
      type: "object",
      properties: { celsius: { type: "number", minimum: -40, maximum: 60 } },
      required: ["celsius"],
      additionalProperties: false,
    },
  ],
];

const tools = [
  {
    type: "function" as const,
    function: {
      name: "add_person",
      description: "Adds a person to the address book.",
      parameters: person,
    },
  },
  {
    type: "function" as const,
    function: { name: "list_people", description: "Lists the address book." },
  },
];

function validate(schema: object, value: unknown): readonly unknown[] {
  const ajv = new Ajv2020({ strict: false });
  addFormats.default(ajv);
  const isValid = ajv.compile(schema);
  isValid(value);
  return isValid.errors ?? [];
}

describe("the model SmolLM2", () => {
  test.each(cases)(
    "answers with a document that its schema allows: %s",
    async (_, content, schema) => {
      const { choices } = await plain.openai.chat.completions.create({
        model: "smollm2",
        messages: [{ role: "user", content }],
        response_format: {
          type: "json_schema",
          json_schema: { name: "answer", schema: { ...schema }, strict: true },
        },
        max_tokens: 200,
        temperature: 0,
      });
      expect(choices[0]?.finish_reason).toBe("stop");
      const text = choices[0]?.message.content ?? "";
      expect([text, validate(schema, JSON.parse(text))]).toEqual([text, []]);
    },
  );

  test.each(["without", "with"] as const)(
    "calls the named tool once with valid arguments, %s a chat template for tools",
    async (kind) => {
      const { openai } = kind === "with" ? withTools : plain;
      const { choices } = await openai.chat.completions.create({
        model: "smollm2",
        messages: [{ role: "user", content: "Add Ada, who is 36: ada@example.org" }],
        tools,
        tool_choice: { type: "function", function: { name: "add_person" } },
        max_tokens: 200,
        temperature: 0,
      });
      const calls = choices[0]?.message.tool_calls ?? [];
      expect(choices[0]?.finish_reason).toBe("tool_calls");
      expect(calls.map((call) => call.type === "function" && call.function.name)).toEqual([
        "add_person",
      ]);
      for (const call of calls)
        if (call.type === "function")
          expect(validate(person, JSON.parse(call.function.arguments))).toEqual([]);
    },
  );
});
