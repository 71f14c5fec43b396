import { Ajv } from "ajv";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { ChatPrompt } from "../../../../../src/assistant/inference/prompts/chat-template.ts";
import {
  type PlanRequest,
  type PromptPlan,
  planPrompt,
} from "../../../../../src/assistant/inference/prompts/plan-prompt.ts";
import type { ChatMessage } from "../../../../../src/assistant/inference/runner.ts";
import { compileLayout } from "../../../../../src/assistant/inference/schema-grammar/compile-schema.ts";
import { scalarGrammar } from "../../../../../src/assistant/inference/schema-grammar/scalar-grammar.ts";
import { GbnfAcceptor } from "../../../../support/gbnf-acceptor.ts";
import { parseGbnf } from "../../../../support/gbnf-grammar.ts";
import { GbnfSampler } from "../../../../support/gbnf-sampler.ts";
import { seededRandom } from "../../../../support/random.ts";
import { readAnswer } from "./read-answer.ts";
import { getFamily } from "./template-families.ts";

const tools = [
  {
    name: "weather",
    description: "Tells the weather",
    parameters: {
      type: "object",
      properties: {
        city: { type: "string", maxLength: 20 },
        days: { type: "integer", minimum: 1 },
      },
      required: ["city"],
      additionalProperties: false,
    },
  },
  { name: "weather_now" },
];
const question: ChatMessage = { role: "user", content: "Rain?" };
const chat: ChatPrompt = { kind: "chat", messages: [question], tools, variables: {} };
const auto: PlanRequest = {
  prompt: chat,
  toolChoice: { kind: "auto" },
  parallelToolCalls: true,
  document: undefined,
};
const required: PlanRequest = { ...auto, toolChoice: { kind: "required" } };

/** One call and two calls in the syntax of each model family. */
const written = {
  chatMl: {
    one: '<tool_call>\n{"name": "weather", "arguments": {"city":"Graz"}}\n</tool_call>',
    two: '<tool_call>\n{"name": "weather_now", "arguments": {}}\n</tool_call>\n<tool_call>\n{"name": "weather", "arguments": {"city":"Graz"}}\n</tool_call>',
  },
  mistral: {
    one: '[TOOL_CALLS] [{"name": "weather", "arguments": {"city":"Graz"}}]',
    two: '[TOOL_CALLS] [{"name": "weather_now", "arguments": {}}, {"name": "weather", "arguments": {"city":"Graz"}}]',
  },
  devstral: {
    one: '[TOOL_CALLS]weather[ARGS]{"city":"Graz"}',
    two: '[TOOL_CALLS]weather_now[ARGS]{}[TOOL_CALLS]weather[ARGS]{"city":"Graz"}',
  },
  llama3: { one: '{"name": "weather", "parameters": {"city":"Graz"}}', two: undefined },
} as const;

/** Writes an answer with this number of calls. */
function repeatCall(family: "chatMl" | "mistral" | "devstral", count: number): string {
  const { one } = written[family];
  const calls = (call: string) => Array.from({ length: count }, () => call);
  if (family === "chatMl") return calls(one).join("\n");
  if (family === "devstral") return calls(one).join("");
  return `[TOOL_CALLS] [${calls(one.slice("[TOOL_CALLS] [".length, -1)).join(", ")}]`;
}

describe.each(["chatMl", "mistral", "devstral", "llama3"] as const)(
  "the model family %s",
  (name) => {
    const { one, two } = written[name];
    const { template } = getFamily(name);

    test("the tool choice `required` restricts the answer to one or several tool calls, without other text", () => {
      const plan = planned(required, template);
      const accepts = acceptorOf(plan);
      expect(accepts(one)).toBe(true);
      if (two !== undefined) expect(accepts(two)).toBe(true);
      for (const text of ["", "Rain.", `Rain. ${one}`, `${one}.`, one.slice(0, -1)]) {
        expect([text, accepts(text)]).toEqual([text, false]);
      }
      expect(accepts(one.replace("Graz", "a city with a name that is too long"))).toBe(false);
      expect(accepts(one.replace('"city"', '"town"'))).toBe(false);
      expect(accepts(one.replace("weather", "weather_tomorrow"))).toBe(false);
    });

    test("at most one call is allowed if parallel calls are turned off", () => {
      const plan = planned({ ...required, parallelToolCalls: false }, template);
      expect(acceptorOf(plan)(one)).toBe(true);
      if (two !== undefined) expect(acceptorOf(plan)(two)).toBe(false);
    });

    test("a named tool is the only tool that may be called", () => {
      const plan = planned(
        { ...auto, toolChoice: { kind: "function", name: "weather_now" } },
        template,
      );
      expect(acceptorOf(plan)(one)).toBe(false);
      expect(
        acceptorOf(plan)(one.replace("weather", "weather_now").replace('"city":"Graz"', "")),
      ).toBe(true);
    });

    test("a named tool is called exactly once, even if parallel calls are allowed", () => {
      if (two === undefined) return;
      const twice = two
        .replaceAll(/weather(?:_now)?/g, "weather_now")
        .replace('{"city":"Graz"}', "{}");
      const request: PlanRequest = {
        ...auto,
        toolChoice: { kind: "function", name: "weather_now" },
      };
      expect(acceptorOf(planned(required, template))(twice)).toBe(true);
      expect(acceptorOf(planned(request, template))(twice)).toBe(false);
    });

    test.each([required, auto])("an answer has at most 16 calls (request %#)", (request) => {
      if (name === "llama3") return;
      const accepts = acceptorOf(planned(request, template));
      expect(accepts(repeatCall(name, 16))).toBe(true);
      expect(accepts(repeatCall(name, 17))).toBe(false);
    });

    test("the tool choice `auto` allows any text, and tool calls with valid arguments", () => {
      const accepts = acceptorOf(planned(auto, template));
      for (const text of [
        "",
        "It rains.",
        "{",
        '{"name": "Ada", "parameters": 3}',
        "<tool_cal",
        "<<tool_call",
        "[TOOL_",
        '{"name": "weather',
        "🙂\n\n",
        one,
      ]) {
        expect([text, accepts(text)]).toEqual([text, true]);
      }
      if (name !== "llama3") expect(accepts(`Let me see.\n${one}`)).toBe(true);
      expect(accepts(one.replace('"city"', '"town"'))).toBe(false);
      fc.assert(
        fc.property(fc.string({ unit: "binary", maxLength: 40 }), (text) => {
          expect(accepts(text)).toBe(true);
        }),
        { numRuns: 100 },
      );
    });

    test("every text that the grammar allows is parsed as calls with valid arguments", () => {
      const plan = planned(required, template);
      const sampler = samplerOf(plan);
      const ajv = new Ajv();
      for (let seed = 1; seed <= 60; seed++) {
        const random = seededRandom(seed);
        const text = sampler.sample(random, 200);
        const answer = readAnswer(plan, pieces(text, random));
        expect(answer.text).toBe("");
        expect(answer.calledTools).toBe(true);
        for (const call of answer.calls) {
          const schema = plan.argumentSchemas.get(call.name);
          expect(schema).toBeDefined();
          expect(ajv.validate(schema ?? false, JSON.parse(call.arguments))).toBe(true);
        }
      }
    });

    test("tool choice none gives no grammar and a prompt without tools", () => {
      const plan = planned({ ...auto, toolChoice: { kind: "none" } }, template);
      expect(plan.layout).toBeUndefined();
      expect(plan.prompt).toMatchObject({ tools: [] });
      expect(readAnswer(plan, [one]).text).toBe(one);
    });
  },
);

describe("an answer with tools and a schema", () => {
  const document = { schema: { type: "object", properties: { rain: { type: "boolean" } } } };

  test("is either a document of the schema or a tool call", () => {
    const accepts = acceptorOf(planned({ ...auto, document }, getFamily("chatMl").template));
    expect(accepts('{"rain":true}')).toBe(true);
    expect(accepts(written.chatMl.one)).toBe(true);
    expect(accepts("It rains.")).toBe(false);
  });

  test("may begin with reasoning, and must do so if the template opens the reasoning", () => {
    const request = { ...auto, prompt: { ...chat, tools: [] }, document };
    const qwen = acceptorOf(planned(request, getFamily("qwen").template));
    expect(qwen('{"rain":true}')).toBe(true);
    expect(qwen('<think>\nIt </t> may.\n</think>\n\n{"rain":true}')).toBe(true);
    expect(qwen("<think>\nIt may.\n</think>\n\nYes.")).toBe(false);
    const plan = planned(request, getFamily("r1").template);
    const r1 = acceptorOf(plan);
    expect(r1('It may.\n</think>\n\n{"rain":true}')).toBe(true);
    expect(r1('{"rain":true}')).toBe(false);
    expect(readAnswer(plan, ['It may.\n</think>\n\n{"rain":', "true}"])).toMatchObject({
      reasoning: "It may.",
      text: '{"rain":true}',
    });
  });

  test("has no reasoning if the request turns it off", () => {
    const prompt = { ...chat, tools: [], variables: { enable_thinking: false } };
    const plan = planned({ ...auto, prompt, document }, getFamily("qwen").template);
    expect(acceptorOf(plan)('{"rain":true}')).toBe(true);
  });
});

describe("a model whose template cannot write tool calls in a format that Berth knows", () => {
  const turns: readonly ChatMessage[] = [
    question,
    {
      role: "assistant",
      content: "",
      toolCalls: [{ id: "call_1", name: "weather", arguments: '{"city": "Graz"}' }],
    },
    { role: "tool", toolCallId: "call_1", content: "sunny" },
    { role: "tool", toolCallId: "call_2", content: "warm" },
  ];

  test("gets the tools in the system message, and calls are plain text", () => {
    const plan = planned(
      { ...auto, prompt: { ...chat, messages: turns } },
      getFamily("phi").template,
    );
    expect(plan.prompt).toEqual({
      kind: "chat",
      variables: {},
      tools: [],
      messages: [
        { role: "system", content: expect.stringContaining('{"name":"weather","description":') },
        question,
        {
          role: "assistant",
          content: '<tool_call>\n{"name": "weather", "arguments": {"city": "Graz"}}\n</tool_call>',
        },
        {
          role: "user",
          content:
            "<tool_response>\nsunny\n</tool_response>\n<tool_response>\nwarm\n</tool_response>",
        },
      ],
    });
    expect(acceptorOf(planned(required, getFamily("phi").template))(written.chatMl.one)).toBe(true);
  });

  test("keeps an existing system message", () => {
    const messages: readonly ChatMessage[] = [
      { role: "developer", content: "Be brief." },
      question,
    ];
    const plan = planned({ ...auto, prompt: { ...chat, messages } }, getFamily("phi").template);
    expect(plan.prompt).toMatchObject({
      messages: [{ content: expect.stringMatching(/^Be brief\.\n\nYou can call/) }, question],
    });
  });

  test("gets no tools as input of the template, even if the template can write calls in an unknown format", () => {
    const { template } = getFamily("chatMl");
    const other = template.replaceAll('<tool_call>\\n{"name": "', "<tool_call>\\n<function=");
    expect(other).not.toBe(template);
    expect(planned(auto, template).prompt).toMatchObject({ tools });
    expect(planned(auto, other).prompt).toMatchObject({ tools: [] });
  });
});

test("for a model without a chat template, the engine gets the messages unchanged", () => {
  const messages: readonly ChatMessage[] = [{ role: "system", content: "Be brief." }, question];
  const plan = planned({ ...auto, prompt: { ...chat, messages, tools: [] } }, undefined);
  expect(plan.prompt).toEqual({ ...chat, messages, tools: [] });
});

test("a prompt that is not a chat stays unchanged", () => {
  const prompt = { kind: "text", text: "<think> and [TOOL_CALLS]" } as const;
  const plan = planned({ ...auto, prompt }, getFamily("qwen").template);
  expect(plan.prompt).toBe(prompt);
  expect(plan.layout).toBeUndefined();
  expect(readAnswer(plan, [prompt.text]).text).toBe(prompt.text);
});

describe("the error of a refused request", () => {
  test.each([
    [{ ...auto, toolChoice: { kind: "function", name: "none" } }, "toolChoice"],
    [{ ...required, prompt: { ...chat, tools: [] } }, "toolChoice"],
    [
      { ...auto, prompt: { ...chat, tools: [{ name: "a", parameters: true }] } },
      "tools[0].parameters",
    ],
    [
      { ...auto, prompt: { ...chat, tools: [{ name: "a", parameters: { type: "string" } }] } },
      "tools[0].parameters",
    ],
  ] as const)("names the offending parameter (request %#)", (request, param) => {
    expect(() => planned(request, getFamily("chatMl").template)).toThrow(
      expect.objectContaining({ code: "invalid_request", param }),
    );
  });
});

function planned(request: PlanRequest, template: string | undefined): PromptPlan {
  let calls = 0;
  return planPrompt(request, template, () => `call_${++calls}`);
}

function gbnfOf({ layout }: PromptPlan): string {
  if (layout === undefined) throw new Error("there is no grammar");
  return compileLayout(layout, scalarGrammar).gbnf;
}

function acceptorOf(plan: PromptPlan): (text: string) => boolean {
  const acceptor = new GbnfAcceptor(parseGbnf(gbnfOf(plan)));
  return (text) => acceptor.accepts(text);
}

function samplerOf(plan: PromptPlan): GbnfSampler {
  return new GbnfSampler(parseGbnf(gbnfOf(plan)));
}

/** Splits a text into pieces of random length, similar to tokens. */
function pieces(text: string, random: () => number): readonly string[] {
  const found: string[] = [];
  for (let at = 0; at < text.length; ) {
    const length = 1 + Math.floor(random() * 6);
    found.push(text.slice(at, at + length));
    at += length;
  }
  return found;
}
