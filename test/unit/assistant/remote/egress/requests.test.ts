import { describe, expect, test } from "vitest";
import type { GenerateRequest } from "../../../../../src/assistant/inference/service-port.ts";
import {
  answerWith,
  chatRequest,
  createEgressHarness,
  refused,
} from "../../../../support/egress-harness.ts";

/** Returns the body that is sent for a request, after JSON serialisation. */
async function sentFor(request: GenerateRequest) {
  const harness = createEgressHarness();
  harness.http.scripts = [answerWith("a")];
  const { error } = await harness.run(request);
  const [call] = harness.http.calls;
  const body: unknown = call && JSON.parse(JSON.stringify(call.body));
  return { path: call?.path, body, error };
}

const always = {
  model: "big",
  stream: true,
  stream_options: { include_usage: true },
  messages: [{ role: "user", content: "hi" }],
};

describe("the body of a request to a provider", () => {
  test("contains only parameters that the client has set", async () => {
    expect(await sentFor({ ...chatRequest, keepAliveMs: 5 })).toMatchObject({
      path: "/chat/completions",
      error: undefined,
    });
    expect((await sentFor({ ...chatRequest, keepAliveMs: 5 })).body).toEqual(always);
    const endless = { ...chatRequest, maxTokens: Number.POSITIVE_INFINITY };
    expect((await sentFor(endless)).body).toEqual(always);
  });

  test("contains every parameter that the client has set", async () => {
    const tool = { name: "look", description: "Looks", parameters: { type: "object" } };
    const schema = { type: "object" };
    const request: GenerateRequest = {
      ...chatRequest,
      n: 2,
      prompts: [
        {
          kind: "chat",
          messages: [
            { role: "system", content: "be brief" },
            {
              role: "assistant",
              content: "",
              toolCalls: [{ id: "c1", name: "look", arguments: "{}" }],
            },
            { role: "tool", content: "found", toolCallId: "c1" },
          ],
          tools: [tool],
          variables: { reasoning_effort: "low", enable_thinking: false },
        },
      ],
      sampling: {
        temperature: 0.5,
        topP: 0.9,
        topK: 40,
        minP: 0.1,
        seed: 7,
        repeatPenalty: 1.1,
        presencePenalty: 0.1,
        frequencyPenalty: 0.2,
        logitBias: { "5": 1 },
        logprobs: 3,
      },
      maxTokens: 50,
      stop: ["END"],
      guide: { kind: "json_schema", name: undefined, schema, strict: true },
      toolChoice: { kind: "function", name: "look" },
      parallelToolCalls: false,
      isStreamed: true,
    };
    expect((await sentFor(request)).body).toEqual({
      ...always,
      n: 2,
      messages: [
        { role: "system", content: "be brief" },
        {
          role: "assistant",
          content: null,
          tool_calls: [{ id: "c1", type: "function", function: { name: "look", arguments: "{}" } }],
        },
        { role: "tool", content: "found", tool_call_id: "c1" },
      ],
      reasoning_effort: "low",
      chat_template_kwargs: { enable_thinking: false },
      tools: [{ type: "function", function: tool }],
      tool_choice: { type: "function", function: { name: "look" } },
      parallel_tool_calls: false,
      temperature: 0.5,
      top_p: 0.9,
      top_k: 40,
      min_p: 0.1,
      seed: 7,
      repeat_penalty: 1.1,
      repetition_penalty: 1.1,
      presence_penalty: 0.1,
      frequency_penalty: 0.2,
      logit_bias: { "5": 1 },
      logprobs: true,
      top_logprobs: 3,
      max_tokens: 50,
      stop: ["END"],
      response_format: {
        type: "json_schema",
        json_schema: { name: "answer", schema, strict: true },
      },
    });
  });

  test("accepts no reserved member from pass-through parameters", async () => {
    const further = {
      user: "me",
      reasoning_effort: "high",
      model: "other",
      stream: false,
      messages: [],
      n: 5,
      max_tokens: 1,
      max_completion_tokens: 1,
      tools: [],
      keep_alive: 5,
      svc_priority: "background",
      svc_scopes: ["files"],
    };
    expect((await sentFor({ ...chatRequest, passthrough: further })).body).toEqual({
      ...always,
      user: "me",
      reasoning_effort: "high",
    });
  });

  test("is sent to /completions for one or more plain prompts", async () => {
    const hello = { kind: "text", text: "hello" } as const;
    const one = { ...chatRequest, prompts: [hello], sampling: { logprobs: 2 } };
    expect(await sentFor(one)).toMatchObject({
      path: "/completions",
      body: { prompt: "hello", logprobs: 2, stream: true },
    });
    expect((await sentFor({ ...chatRequest, prompts: [hello, hello] })).body).toMatchObject({
      prompt: ["hello", "hello"],
    });
  });

  test("is refused for a prompt of token ids", async () => {
    const prompts = [{ kind: "tokens", tokens: [1, 2] }] as const;
    const { error, path } = await sentFor({ ...chatRequest, prompts });
    expect(error).toMatchObject({ code: "unsupported_parameter", param: "prompts" });
    expect(path).toBeUndefined();
  });
});

const item = (index: number, embedding: unknown) => ({ index, embedding });
const base64 = (...numbers: readonly number[]) =>
  Buffer.from(Float32Array.from(numbers).buffer).toString("base64");

function answering(data: unknown, more: Record<string, unknown> = {}) {
  const harness = createEgressHarness();
  harness.http.scripts = [{ pieces: [JSON.stringify({ data, ...more })] }];
  return harness;
}

describe("embeddings of a provider", () => {
  const request = { ...chatRequest, texts: ["abcd", "ef", "gh"], passthrough: { dimensions: 2 } };
  const signal = new AbortController().signal;
  test("are unit vectors in the order of the texts, and the total of tokens is distributed over the texts", async () => {
    const data = [item(2, [0, 5]), item(0, base64(3, 4)), item(1, [1, 0])];
    const harness = answering(data, { usage: { prompt_tokens: 5 } });
    expect(await harness.service.embed(request, signal)).toEqual({
      model: "remote:acme:big",
      ledgerSeq: 0,
      vectors: [
        [3 / 5, 4 / 5],
        [1, 0],
        [0, 1],
      ].map((vector) => Float32Array.from(vector)),
      tokens: [3, 1, 1],
    });
    expect(harness.http.calls).toMatchObject([
      {
        path: "/embeddings",
        body: { model: "big", input: request.texts, encoding_format: "float", dimensions: 2 },
      },
    ]);
    expect(harness.log).toEqual([
      "ledger inference.embed",
      "ledger egress.send",
      "http /embeddings",
    ]);
    expect(harness.ledger.entries[1]?.fields).toMatchObject({ kind: "embed", attempt: 1 });
    expect([harness.directory.statuses, harness.consent.watching]).toEqual([["ok"], 0]);
  });

  test.each([
    ["too few embeddings", [item(0, [1]), item(1, [1])]],
    ["a duplicate index", [item(0, [1]), item(1, [1]), item(1, [1])]],
    ["an index without a text", [item(0, [1]), item(1, [1]), item(3, [1])]],
    ["different lengths", [item(0, [1]), item(1, [1, 0]), item(2, [1])]],
    ["a vector of length 0", [item(0, [0]), item(1, [1]), item(2, [1])]],
    ["items that are no numbers", [item(0, ["x"]), item(1, [1]), item(2, [1])]],
    ["an object in place of a vector", [item(0, {}), item(1, [1]), item(2, [1])]],
  ])("cannot be read from %s", async (_, data) => {
    const harness = answering(data);
    await expect(harness.service.embed(request, signal)).rejects.toMatchObject({
      code: "bad_response",
    });
    expect(harness.directory.statuses).toEqual(["failed"]);
  });

  test("need consent like every other request", async () => {
    const harness = answering([]);
    const egress = { classes: ["files"], allowedOnce: [] } as const;
    await expect(harness.service.embed({ ...request, egress }, signal)).rejects.toMatchObject({
      code: "consent_required",
    });
    expect(harness.log).toEqual([]);
  });

  test("fail with the provider's error", async () => {
    const harness = answering(undefined, { error: { message: "no", code: 429 } });
    await expect(harness.service.embed(request, signal)).rejects.toMatchObject({
      code: "rate_limited",
    });
    harness.http.scripts = [refused(404)];
    await expect(harness.service.embed(request, signal)).rejects.toMatchObject({ status: 404 });
  });
});
