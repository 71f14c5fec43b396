import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { AssistantError, type AssistantErrorCode } from "../../../src/assistant/assistant-error.ts";
import {
  type InferenceHttpHarness,
  startInferenceHttp,
} from "../../support/inference-http-harness.ts";
import { accepted, says, started } from "../../support/scripted-service.ts";

let harness: InferenceHttpHarness;
beforeEach(async () => {
  harness = await startInferenceHttp();
});
afterEach(() => harness[Symbol.asyncDispose]());

const messages = [{ role: "user" as const, content: "hi" }];

describe("a chat response that is not streamed", () => {
  test("has the documented members", async () => {
    const response = await harness.post("/v1/chat/completions", { messages });
    expect(response.headers.get("content-type")).toBe("application/json; charset=utf-8");
    expect(await response.json()).toEqual({
      id: expect.stringMatching(/^chatcmpl-/),
      object: "chat.completion",
      created: expect.closeTo(Date.now() / 1000, -1),
      model: "tiny",
      choices: [
        {
          index: 0,
          message: { role: "assistant", content: "Hello there", refusal: null },
          logprobs: null,
          finish_reason: "stop",
        },
      ],
      usage: {
        prompt_tokens: 5,
        completion_tokens: 3,
        total_tokens: 8,
        prompt_tokens_details: { cached_tokens: 2 },
        completion_tokens_details: { reasoning_tokens: 0 },
      },
    });
  });

  test("is computed with all parameters that the openai client has sent", async () => {
    await harness.openai.chat.completions.create({
      model: "default",
      messages: [
        { role: "developer", content: "be brief" },
        {
          role: "user",
          content: [
            { type: "text", text: "a" },
            { type: "text", text: "b" },
          ],
          name: "ann",
        },
        {
          role: "assistant",
          content: null,
          tool_calls: [{ id: "c1", type: "function", function: { name: "t", arguments: "{}" } }],
        },
        { role: "tool", tool_call_id: "c1", content: "42" },
      ],
      temperature: 0.5,
      top_p: 0.9,
      seed: -1,
      n: 2,
      max_completion_tokens: 77,
      presence_penalty: 0.25,
      frequency_penalty: -0.25,
      logit_bias: { "42": -100 },
      logprobs: true,
      top_logprobs: 3,
      response_format: {
        type: "json_schema",
        json_schema: { name: "answer", strict: true, schema: { type: "object" } },
      },
      tools: [
        {
          type: "function",
          function: { name: "t", description: "d", parameters: { type: "object" } },
        },
      ],
      tool_choice: { type: "function", function: { name: "t" } },
      parallel_tool_calls: false,
      reasoning_effort: "low",
    });
    expect(harness.service.requests).toEqual([
      {
        model: "default",
        prompts: [
          {
            kind: "chat",
            messages: [
              { role: "developer", content: "be brief" },
              { role: "user", content: "a\nb", name: "ann" },
              {
                role: "assistant",
                content: "",
                toolCalls: [{ id: "c1", name: "t", arguments: "{}" }],
              },
              { role: "tool", content: "42", toolCallId: "c1" },
            ],
            tools: [{ name: "t", description: "d", parameters: { type: "object" } }],
            variables: { reasoning_effort: "low" },
          },
        ],
        n: 2,
        sampling: {
          temperature: 0.5,
          topP: 0.9,
          seed: 4_294_967_294,
          presencePenalty: 0.25,
          frequencyPenalty: -0.25,
          logitBias: { "42": -100 },
          logprobs: 3,
        },
        maxTokens: 77,
        stop: [],
        priority: "interactive",
        guide: { kind: "json_schema", name: "answer", schema: { type: "object" }, strict: true },
        toolChoice: { kind: "function", name: "t" },
        parallelToolCalls: false,
        isStreamed: false,
        keepAliveMs: undefined,
        asker: { door: "http", uid: undefined },
      },
    ]);
  });

  test("may be requested with parameters that the openai client lacks, and with null for an absent parameter", async () => {
    const response = await harness.post("/v1/chat/completions", {
      messages,
      model: null,
      tools: null,
      stop: "x",
      top_k: -1,
      min_p: 0.1,
      repetition_penalty: 1.1,
      max_tokens: -1,
      svc_priority: "background",
      keep_alive: "5m",
      enable_thinking: false,
      chat_template_kwargs: { style: "plain" },
      response_format: { type: "text" },
    });
    expect(response.status).toBe(200);
    expect(harness.service.requests[0]).toMatchObject({
      model: undefined,
      prompts: [{ tools: [], variables: { style: "plain", enable_thinking: false } }],
      sampling: { topK: 0, minP: 0.1, repeatPenalty: 1.1, logprobs: undefined },
      maxTokens: Number.POSITIVE_INFINITY,
      stop: ["x"],
      priority: "background",
      guide: { kind: "none" },
      toolChoice: { kind: "none" },
      keepAliveMs: 300_000,
    });
  });

  test("has tool calls, reasoning and logprobs", async () => {
    harness.service.script = function* () {
      yield accepted;
      yield started();
      yield { type: "reasoning", choice: 0, text: "hm" };
      const call = { type: "tool_call", choice: 0 } as const;
      yield { ...call, index: 0, start: { id: "a", name: "one" }, arguments: "{" };
      yield { ...call, index: 0, arguments: "}" };
      yield { ...call, index: 1, start: { id: "b", name: "two" }, arguments: "{}" };
      yield {
        type: "end",
        choice: 0,
        reason: "tool_calls",
        completionTokens: 9,
        reasoningTokens: 4,
      };
    };
    const { choices, usage } = await harness.openai.chat.completions.create({
      model: "tiny",
      messages,
    });
    expect(choices[0]).toMatchObject({
      finish_reason: "tool_calls",
      message: {
        content: null,
        reasoning_content: "hm",
        tool_calls: [
          { id: "a", type: "function", function: { name: "one", arguments: "{}" } },
          { id: "b", type: "function", function: { name: "two", arguments: "{}" } },
        ],
      },
    });
    expect(usage?.completion_tokens_details?.reasoning_tokens).toBe(4);
    harness.service.script = (request) => says(request, ["é"], "length");
    const second = await harness.openai.chat.completions.create({
      model: "tiny",
      messages,
      logprobs: true,
    });
    expect(second.choices[0]).toMatchObject({
      finish_reason: "length",
      logprobs: { content: [{ token: "é", bytes: [195, 169], logprob: -0.5, top_logprobs: [] }] },
    });
  });

  test("keeps n choices apart, in whatever order their pieces arrive", async () => {
    harness.service.script = function* () {
      yield accepted;
      yield started();
      for (const text of ["a", "b"]) {
        for (const choice of [1, 0]) yield { type: "text", choice, text: `${text}${choice}` };
      }
      for (const choice of [1, 0])
        yield { type: "end", choice, reason: "stop", completionTokens: 2 };
    };
    const { choices, usage } = await harness.openai.chat.completions.create({
      model: "tiny",
      messages,
      n: 2,
    });
    expect(choices.map(({ index, message }) => [index, message.content])).toEqual([
      [0, "a0b0"],
      [1, "a1b1"],
    ]);
    expect([usage?.prompt_tokens, usage?.completion_tokens]).toEqual([5, 4]);
  });
});

describe("a parameter that Berth does not support", () => {
  test("is accepted silently if it has no effect", async () => {
    const response = await harness.post("/v1/chat/completions", {
      messages,
      user: "ann",
      metadata: { a: "b" },
      store: true,
      service_tier: "flex",
      verbosity: "low",
      modalities: ["text"],
      parallel_tool_calls: true,
      mirostat: 0,
      functions: [],
    });
    expect([response.status, response.headers.get("x-berth-ignored")]).toEqual([200, null]);
  });

  test("is named in a header if it is unknown", async () => {
    const response = await harness.post("/v1/chat/completions", {
      messages: [{ ...messages[0], mood: 3 }],
      colour: "red",
      "ünknown\r\nset-cookie: a": 1,
      stream_options: { include_usage: true },
      constructor: 1,
    });
    expect(response.status).toBe(200);
    expect(response.headers.get("x-berth-ignored")).toBe(
      "colour, %C3%BCnknown%0D%0Aset-cookie%3A%20a, constructor, stream_options, messages[].mood",
    );
  });

  test.each([
    [{ functions: [{ name: "f" }] }, "functions"],
    [{ function_call: { name: "f" } }, "function_call"],
    [{ modalities: ["text", "audio"] }, "modalities"],
    [{ audio: { voice: "x" } }, "audio"],
    [{ mirostat: 2 }, "mirostat"],
    [{ best_of: 2 }, "best_of"],
    [{ prompt: "x" }, "prompt"],
    [{ n_predict: 5 }, "n_predict"],
    [
      { messages: [{ role: "assistant", function_call: { name: "f" } }] },
      "messages[0].function_call",
    ],
    [
      {
        messages: [
          { role: "user", content: [{ type: "image_url", image_url: { url: "data:," } }] },
        ],
      },
      "messages[0].content[0].type",
    ],
  ])(
    "is refused, and the error names it, if it would change the answer: the body %j",
    async (body, param) => {
      const response = await harness.post("/v1/chat/completions", { messages, ...body });
      expect(response.status).toBe(400);
      expect(await response.json()).toMatchObject({
        error: { type: "invalid_request_error", code: "unsupported_parameter", param },
      });
      expect(harness.service.requests).toEqual([]);
    },
  );
});

const part = (type: string) => ({ messages: [{ role: "user", content: [{ type }] }] });
const tool = (name: string, parameters: unknown = {}) => ({
  type: "function",
  function: { name, parameters },
});

test.each<[object, string | null, string]>([
  [{ messages: undefined }, "messages", "messages is required"],
  [{ messages: "hi" }, "messages", "messages has to be an array, and is a string"],
  [{ messages: [] }, "messages", "messages has to have at least 1 item"],
  [{ messages: ["hi"] }, "messages[0]", "messages[0] has to be an object, and is a string"],
  [{ messages: [{ role: "user" }] }, "messages[0].content", "messages[0].content is required"],
  [
    { messages: [{ role: "bot", content: "" }] },
    "messages[0].role",
    "messages[0].role has to be one of",
  ],
  [part("image"), "messages[0].content[0].type", 'messages[0].content[0].type has to be "text"'],
  [part("text"), "messages[0].content[0].text", "messages[0].content[0].text is required"],
  [{ messages: [{ role: "tool", content: "" }] }, "messages[0].tool_call_id", "is required"],
  [{ temperature: 3 }, "temperature", "temperature has to be <= 2, and is 3"],
  [{ temperature: "hot" }, "temperature", "temperature has to be a number, and is a string"],
  [{ max_tokens: 0 }, "max_tokens", "max_tokens has to be 1 or more"],
  [{ max_tokens: 1.5 }, "max_tokens", "max_tokens has to be an integer, and is 1.5"],
  [{ max_tokens: 1, max_completion_tokens: 2 }, "max_completion_tokens", "send only one of them"],
  [{ n: 9 }, "n", "n has to be <= 8, and is 9"],
  [{ stop: ["a", "b", "c", "d", "e"] }, "stop", "stop may have at most 4 texts"],
  [{ stop: ["a", ""] }, "stop[1]", "stop[1] is empty"],
  [{ stop: 7 }, "stop", "stop has to be a string or an array of strings, and is a number"],
  [
    { stop: "x", response_format: { type: "json_object" } },
    "stop",
    "stop cannot be combined with a JSON response_format",
  ],
  [
    { stop: ["x"], response_format: { type: "json_schema", json_schema: { schema: {} } } },
    "stop",
    "leave stop out",
  ],
  [{ logit_bias: { the: 1 } }, "logit_bias", "token ids"],
  [{ logit_bias: { "5": 101 } }, "logit_bias[5]", "has to be <= 100"],
  [{ top_logprobs: 2 }, "top_logprobs", "top_logprobs needs logprobs: true"],
  [{ svc_priority: "high" }, "svc_priority", 'has to be one of "interactive", "background"'],
  [{ keep_alive: "soon" }, "keep_alive", "keep_alive has to be a number of seconds"],
  [{ response_format: "json" }, "response_format", "has to be an object, and is a string"],
  [{ response_format: { type: "xml" } }, "response_format.type", 'has to be one of "text"'],
  [{ response_format: { type: "json_schema" } }, "response_format.json_schema", "is required"],
  [
    { response_format: { type: "json_schema", json_schema: { name: "x" } } },
    "response_format.json_schema.schema",
    "is required",
  ],
  [
    { response_format: { type: "json_schema", json_schema: { name: "x", schema: [] } } },
    "response_format.json_schema.schema",
    "has to be a JSON Schema, and is an array",
  ],
  [
    { response_format: { type: "json_object", schema: "{}" } },
    "response_format.schema",
    "has to be a JSON Schema, and is a string",
  ],
  [
    { response_format: { type: "json_schema", schema: {}, json_schema: { schema: {} } } },
    "response_format.schema",
    "send only one of them",
  ],
  [{ tools: [{ type: "web" }] }, "tools[0].type", 'has to be "function"'],
  [{ tools: [tool("a b")] }, "tools[0].function.name", "has to match"],
  [{ tools: [tool("a"), tool("a")] }, "tools[1].function.name", "another tool"],
  [
    { tools: [tool("a", "s")] },
    "tools[0].function.parameters",
    "has to be a JSON Schema of an object",
  ],
  [{ tool_choice: "required" }, "tool_choice", "the request has no tools"],
  [{ tools: [tool("a")], tool_choice: "b" }, "tool_choice", 'has to be "none", "auto"'],
  [
    { tools: [tool("a")], tool_choice: { type: "function", function: { name: "b" } } },
    "tool_choice.function.name",
    "is not the name of one of the tools",
  ],
  [{ chat_template_kwargs: { messages: [] } }, "chat_template_kwargs.messages", "is set by Berth"],
  [{ repeat_penalty: 1, repetition_penalty: 2 }, "repetition_penalty", "send only one of them"],
])(
  "a chat request whose body contains %j is refused, and the error names the wrong parameter",
  async (body, param, message) => {
    const response = await harness.post("/v1/chat/completions", { messages, ...body });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      error: {
        type: "invalid_request_error",
        code: "invalid_request",
        param,
        message: expect.stringContaining(message),
      },
    });
  },
);

test.each<[AssistantErrorCode, number, string | null]>([
  ["unsupported_schema", 400, null],
  ["model_not_found", 404, null],
  ["no_model", 503, "false"],
  ["insufficient_memory", 503, "false"],
  ["queue_full", 429, null],
  ["timeout", 504, null],
  ["invalid_output", 500, "false"],
  ["engine_failed", 500, null],
  ["ledger_unavailable", 503, "false"],
])(
  "the error %s of the inference service is answered with the HTTP status %i",
  async (code, status, shouldRetry) => {
    // oxlint-disable-next-line require-yield
    harness.service.script = function* () {
      throw new AssistantError(code, "this and that", { param: "guide.schema" });
    };
    const response = await harness.post("/v1/chat/completions", { messages });
    expect([response.status, response.headers.get("x-should-retry")]).toEqual([
      status,
      shouldRetry,
    ]);
    expect(response.headers.get("retry-after")).toBe(code === "queue_full" ? "1" : null);
    expect(await response.json()).toMatchObject({
      error: { message: "this and that", param: "response_format.json_schema.schema", code },
    });
  },
);

test("the openai client does not retry a request that the ledger has refused", async () => {
  let count = 0;
  // oxlint-disable-next-line require-yield
  harness.service.script = function* () {
    count += 1;
    throw new AssistantError("ledger_unavailable", "the disk is full");
  };
  const call = harness.openai.chat.completions.create(
    { model: "tiny", messages },
    { maxRetries: 3 },
  );
  await expect(call).rejects.toMatchObject({ status: 503, code: "ledger_unavailable" });
  expect(count).toBe(1);
});
