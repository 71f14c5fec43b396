import { Ajv2020 } from "ajv/dist/2020.js";
import fc from "fast-check";
import type OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createDocumentValidator } from "../../src/assistant/inference/schema-grammar/document-validator.ts";
import { AssistantProcess } from "../support/assistant-process.ts";
import { getModelFile } from "../support/gguf/preset-model.ts";
import { arbitrarySchemaAndDocument } from "../support/schema-arbitrary.ts";

/** The number of random schemas for which a model with random weights generates documents. */
const SCHEMAS = 150;
/** The number of documents that are generated concurrently: one for each of the model's sequences. */
const AT_ONCE = 8;

let daemon: AssistantProcess;
let openai: OpenAI;
beforeAll(async () => {
  const model = await getModelFile("tiny", { contextTokens: 4_096 });
  daemon = await AssistantProcess.start(["--model", `m=${model}`, "--context", "2048"]);
  openai = daemon.openai;
});
afterAll(() => daemon[Symbol.asyncDispose]());

const messages = [{ role: "user" as const, content: "Fill it in" }];

async function guided(schema: object, seed: number) {
  return openai.chat.completions.create({
    model: "m",
    messages,
    seed,
    temperature: 1,
    max_tokens: 250,
    response_format: {
      type: "json_schema",
      json_schema: { name: "answer", schema: { ...schema } },
    },
  });
}

describe("answers with a response_format", () => {
  test("from a model with random weights are valid, or cut off by the token limit, for every schema", async () => {
    const seed = Math.floor(Math.random() * 2 ** 31);
    const pairs = fc.sample(arbitrarySchemaAndDocument(3), { numRuns: SCHEMAS, seed });
    const outcomes = { valid: 0, length: 0, refused: 0 };
    const wrong: unknown[] = [];
    const one = async ({ schema }: { readonly schema: unknown }, index: number) => {
      if (typeof schema !== "object" || schema === null) return;
      try {
        const answer = await guided(schema, index);
        const [choice] = answer.choices;
        if (choice?.finish_reason === "length") outcomes.length += 1;
        else if (
          createDocumentValidator(schema)(JSON.parse(choice?.message.content ?? "")).length === 0
        )
          outcomes.valid += 1;
        else wrong.push({ schema, content: choice?.message.content });
      } catch (error) {
        const refusal = error instanceof Error && "status" in error ? error.status : undefined;
        if (refusal === 400) outcomes.refused += 1;
        else wrong.push({ schema, error: String(error) });
      }
    };
    let next = 0;
    await Promise.all(
      Array.from({ length: AT_ONCE }, async () => {
        for (let index = next++; index < pairs.length; index = next++) {
          const pair = pairs[index];
          if (pair) await one(pair, index);
        }
      }),
    );
    expect({ seed, wrong }).toEqual({ seed, wrong: [] });
    expect(outcomes.valid).toBeGreaterThan(SCHEMAS / 2);
    expect(outcomes.refused).toBeLessThan(SCHEMAS / 4);
  });

  test("are objects for the type json_object, even when they are streamed", async () => {
    const stream = await openai.chat.completions.create({
      model: "m",
      messages,
      stream: true,
      seed: 5,
      max_tokens: 1_000,
      response_format: { type: "json_object" },
    });
    let text = "";
    let reason: string | null = null;
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? "";
      reason = chunk.choices[0]?.finish_reason ?? reason;
    }
    expect(text[0]).toBe("{");
    if (reason === "stop") expect(JSON.parse(text)).toBeTypeOf("object");
    else expect(reason).toBe("length");
  });

  test("are refused if the schema cannot be enforced, and the error names keyword and position", async () => {
    await expect(
      guided({ type: "object", properties: { a: { type: "string", pattern: "(x)\\1" } } }, 1),
    ).rejects.toMatchObject({
      status: 400,
      type: "invalid_request_error",
      code: "unsupported_schema",
      message: expect.stringMatching(/pattern.*properties\/a/s),
    });
  });
});

const tools = [
  {
    type: "function" as const,
    function: {
      name: "set_light",
      description: "Turns a light on or off",
      parameters: {
        type: "object",
        properties: {
          room: { enum: ["kitchen", "hall"] },
          on: { type: "boolean" },
          level: { type: "integer", minimum: 0, maximum: 100 },
        },
        required: ["room", "on"],
        additionalProperties: false,
      },
    },
  },
  { type: "function" as const, function: { name: "stop_music", description: "Stops the music" } },
];

describe("tool calls with enforced arguments", () => {
  test("with parameters that cannot be enforced are refused, and the error names the tool", async () => {
    const numbers = { type: "array", items: { type: "number" }, uniqueItems: true };
    const unsuited = {
      type: "function" as const,
      function: { name: "mean", parameters: { type: "object", properties: { numbers } } },
    };
    const request = { model: "m", messages, tools: [...tools, unsuited], max_tokens: 5 };
    const refusal = { status: 400, code: "unsupported_schema" };
    await expect(openai.chat.completions.create(request)).rejects.toMatchObject({
      ...refusal,
      param: "tools[2].function.parameters",
      message: expect.stringMatching(/tools\[2\].*uniqueItems.*#\/properties\/numbers/),
    });
    const ofAnswer = { type: "json_schema" as const, json_schema: { name: "n", schema: numbers } };
    await expect(
      openai.chat.completions.create({ ...request, tools, response_format: ofAnswer }),
    ).rejects.toMatchObject({ ...refusal, param: "response_format.json_schema.schema" });
  });

  test.each([
    ["required", "required" as const, /^(set_light|stop_music)$/],
    ["named", { type: "function" as const, function: { name: "set_light" } }, /^set_light$/],
  ])("that are %s have valid arguments, whole and streamed", async (_, choice, name) => {
    for (let seed = 0; seed < 6; seed++) {
      const request = {
        model: "m",
        messages,
        tools,
        tool_choice: choice,
        parallel_tool_calls: false,
        seed,
        max_tokens: 300,
      };
      const answer = await openai.chat.completions.create(request);
      const [whole] = answer.choices;
      expect(whole?.finish_reason).toBe("tool_calls");
      expect(whole?.message.tool_calls).toHaveLength(1);
      const call = whole?.message.tool_calls?.[0];
      if (call?.type !== "function") throw new Error("a function is called");
      expect(call.function.name).toMatch(name);
      expect(
        new Ajv2020().validate(schemaOf(call.function.name), JSON.parse(call.function.arguments)),
      ).toBe(true);

      const streamed = { id: "", name: "", text: "" };
      for await (const chunk of await openai.chat.completions.create({
        ...request,
        stream: true,
      })) {
        for (const delta of chunk.choices[0]?.delta.tool_calls ?? []) {
          streamed.id += delta.id ?? "";
          streamed.name += delta.function?.name ?? "";
          streamed.text += delta.function?.arguments ?? "";
        }
      }
      expect(streamed).toEqual({
        id: expect.stringMatching(/^call_/),
        name: call.function.name,
        text: call.function.arguments,
      });
    }
  });

  test("can be answered with the tools' results in the next request", async () => {
    const answer = await openai.chat.completions.create({
      model: "m",
      tools,
      tool_choice: "none",
      max_tokens: 5,
      messages: [
        ...messages,
        {
          role: "assistant",
          tool_calls: [
            { id: "call_1", type: "function", function: { name: "stop_music", arguments: "{}" } },
          ],
        },
        { role: "tool", tool_call_id: "call_1", content: "stopped" },
      ],
    });
    expect(answer.choices[0]?.message.tool_calls).toBeUndefined();
    expect(answer.usage?.completion_tokens).toBeGreaterThan(0);
  });

  test("are not made with tool_choice none, and are optional with auto", async () => {
    for (const choice of ["none", "auto"] as const) {
      const answer = await openai.chat.completions.create({
        model: "m",
        messages,
        tools,
        tool_choice: choice,
        max_tokens: 8,
        seed: 3,
      });
      expect(answer.choices[0]?.message.tool_calls).toBeUndefined();
    }
  });
});

function schemaOf(name: string): object {
  return (
    tools.find((tool) => tool.function.name === name)?.function.parameters ?? { type: "object" }
  );
}
