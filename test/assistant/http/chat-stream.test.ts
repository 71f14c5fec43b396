import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { AssistantError } from "../../../src/assistant/assistant-error.ts";
import {
  type InferenceHttpHarness,
  readDataLines,
  SHORT_WAIT,
  startInferenceHttp,
} from "../../support/inference-http-harness.ts";
import { accepted, forever, Gate, says, started } from "../../support/scripted-service.ts";

let harness: InferenceHttpHarness;
beforeEach(async () => {
  harness = await startInferenceHttp({ limits: { openAfterMs: 30, heartbeatMs: 30 } });
});
afterEach(() => harness[Symbol.asyncDispose]());

const messages = [{ role: "user" as const, content: "hi" }];

interface Chunk {
  readonly id: string;
  readonly object: string;
  readonly model: string;
  readonly choices: readonly { readonly delta: unknown }[];
  readonly usage?: unknown;
}

async function chunksOf(body: object): Promise<Chunk[]> {
  const response = await harness.post("/v1/chat/completions", { messages, stream: true, ...body });
  expect(response.status).toBe(200);
  expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
  const data = readDataLines(await response.text());
  expect(data.at(-1)).toBe("[DONE]");
  return data.slice(0, -1).map((text) => JSON.parse(text));
}

describe("a streamed chat", () => {
  test("consists of a chunk with the role, the text, the finish reason, and [DONE]", async () => {
    const chunks = await chunksOf({});
    expect(chunks.map((chunk) => chunk.choices)).toEqual(
      [
        [{ role: "assistant", content: "", refusal: null }, null],
        [{ content: "Hello" }, null],
        [{ content: " " }, null],
        [{ content: "there" }, null],
        [{}, "stop"],
      ].map(([delta, reason]) => [{ index: 0, delta, logprobs: null, finish_reason: reason }]),
    );
    expect(new Set(chunks.map((chunk) => chunk.id)).size).toBe(1);
    expect(chunks[0]?.id).toMatch(/^chatcmpl-/);
    expect(new Set(chunks.map((chunk) => `${chunk.object} ${chunk.model}`))).toEqual(
      new Set(["chat.completion.chunk tiny"]),
    );
    expect(chunks.every((chunk) => !("usage" in chunk))).toBe(true);
  });

  test("has its token usage in a separate chunk with an empty choices array", async () => {
    const chunks = await chunksOf({ stream_options: { include_usage: true } });
    expect(chunks.slice(0, -1).map((chunk) => chunk.usage)).toEqual([null, null, null, null, null]);
    expect(chunks.at(-1)).toMatchObject({
      choices: [],
      usage: {
        prompt_tokens: 5,
        completion_tokens: 3,
        total_tokens: 8,
        prompt_tokens_details: { cached_tokens: 2 },
      },
    });
  });

  test("reaches the caller of the openai client with unchanged text, for characters of one to four bytes", async () => {
    const words = ['"quoted"', "\n\n", "data: [DONE]", "ümläut 🦜", "\u2028", "</s>"];
    harness.service.script = (request) => says(request, words, "length");
    const stream = await harness.openai.chat.completions.create({
      model: "tiny",
      messages,
      stream: true,
      stream_options: { include_usage: true },
    });
    let text = "";
    let reason = "";
    let usage = 0;
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? "";
      reason = chunk.choices[0]?.finish_reason ?? reason;
      usage = chunk.usage?.total_tokens ?? usage;
    }
    expect([text, reason, usage]).toEqual([words.join(""), "length", 11]);
  });

  test("has a chunk with the role for each of n choices", async () => {
    const chunks = await chunksOf({ n: 3 });
    const roles = chunks.slice(0, 3).flatMap((chunk) => chunk.choices);
    expect(roles).toMatchObject(
      [0, 1, 2].map((index) => ({ index, delta: { role: "assistant" } })),
    );
  });

  test("has logprobs with their text, and represents minus infinity as a number", async () => {
    const chunks = await chunksOf({ logprobs: true, top_logprobs: 2 });
    expect(chunks[1]?.choices).toMatchObject([
      {
        delta: { content: "Hello" },
        logprobs: {
          content: [
            {
              token: "Hello",
              logprob: -0.5,
              bytes: [72, 101, 108, 108, 111],
              top_logprobs: [{ token: "Hello" }, { token: "?", logprob: -9999 }],
            },
          ],
        },
      },
    ]);
  });

  test("has tool calls in pieces that the openai client joins", async () => {
    harness.service.script = function* () {
      yield accepted;
      yield started();
      yield { type: "reasoning", choice: 0, text: "which?" };
      const start = { id: "call_1", name: "weather" };
      yield { type: "tool_call", choice: 0, index: 0, start, arguments: "" };
      yield { type: "tool_call", choice: 0, index: 0, arguments: '{"city":' };
      yield { type: "tool_call", choice: 0, index: 0, arguments: '"Kiel"}' };
      yield { type: "end", choice: 0, reason: "tool_calls", completionTokens: 9 };
    };
    const tools = [
      { type: "function" as const, function: { name: "weather", parameters: { type: "object" } } },
    ];
    const runner = harness.openai.chat.completions.stream({ model: "tiny", messages, tools });
    const completion = await runner.finalChatCompletion();
    expect(completion.choices[0]).toMatchObject({
      finish_reason: "tool_calls",
      message: {
        tool_calls: [
          {
            id: "call_1",
            type: "function",
            function: { name: "weather", arguments: '{"city":"Kiel"}' },
          },
        ],
      },
    });
    const chunks = await chunksOf({ tools });
    expect(chunks.map((chunk) => chunk.choices[0]?.delta).slice(1)).toEqual([
      { reasoning_content: "which?" },
      {
        tool_calls: [
          {
            index: 0,
            id: "call_1",
            type: "function",
            function: { name: "weather", arguments: "" },
          },
        ],
      },
      { tool_calls: [{ index: 0, function: { arguments: '{"city":' } }] },
      { tool_calls: [{ index: 0, function: { arguments: '"Kiel"}' } }] },
      {},
    ]);
  });
});

describe("an error of a stream", () => {
  test("that occurs before the first delta is sent as an HTTP status", async () => {
    // oxlint-disable-next-line require-yield
    harness.service.script = function* () {
      throw new AssistantError("ledger_unavailable", "the ledger cannot be written");
    };
    const response = await harness.post("/v1/chat/completions", { messages, stream: true });
    expect(response.status).toBe(503);
    expect(response.headers.get("x-should-retry")).toBe("false");
    expect(await response.json()).toEqual({
      error: {
        message: "the ledger cannot be written",
        type: "service_unavailable",
        code: "ledger_unavailable",
        param: null,
      },
    });
  });

  test("that occurs after the request was accepted is still sent as an HTTP status if the client has received nothing yet", async () => {
    harness.service.script = function* () {
      yield accepted;
      throw new AssistantError("context_length_exceeded", "9 tokens are more than 8", {
        param: "prompts[0]",
      });
    };
    const response = await harness.post("/v1/chat/completions", { messages, stream: true });
    expect([response.status, await response.json()]).toMatchObject([
      400,
      { error: { param: "messages" } },
    ]);
  });

  test("that occurs midway is sent as the last event, and the openai client throws it", async () => {
    harness.service.script = function* () {
      yield accepted;
      yield { type: "text", choice: 0, text: "Hel" };
      throw new AssistantError("engine_failed", "the engine ended");
    };
    const raw = await harness.post("/v1/chat/completions", { messages, stream: true });
    const data = readDataLines(await raw.text());
    expect(JSON.parse(data.at(-1) ?? "")).toEqual({
      error: {
        message: "the engine ended",
        type: "server_error",
        code: "engine_failed",
        param: null,
      },
    });
    expect(data).not.toContain("[DONE]");
    const stream = await harness.openai.chat.completions.create({
      messages,
      model: "tiny",
      stream: true,
    });
    const seen: string[] = [];
    await expect(async () => {
      for await (const chunk of stream) seen.push(chunk.choices[0]?.delta.content ?? "");
    }).rejects.toMatchObject({ code: "engine_failed", message: "the engine ended" });
    expect(seen.join("")).toBe("Hel");
  });

  test("that is unexpected reveals no details", async () => {
    harness.service.script = function* () {
      yield accepted;
      yield { type: "text", choice: 0, text: "Hel" };
      throw new Error("secret /path");
    };
    const raw = await harness.post("/v1/chat/completions", { messages, stream: true });
    const last = readDataLines(await raw.text()).at(-1) ?? "";
    expect(JSON.parse(last)).toMatchObject({ error: { code: "internal" } });
    expect(last).not.toContain("secret");
  });
});

describe("a stream that waits", () => {
  test("opens while its request waits, and sends SSE comments, which the openai client ignores", async () => {
    const gate = new Gate();
    harness.service.script = async function* (request) {
      yield accepted;
      await gate.opened;
      yield* [...says(request, ["late"])].slice(1);
    };
    const stream = harness.openai.chat.completions.stream({ messages, model: "tiny" });
    const raw = await harness.post("/v1/chat/completions", { messages, stream: true });
    const reader = raw.body?.pipeThrough(new TextDecoderStream()).getReader();
    let seen = "";
    while (!/: waiting\n\n[^]*: waiting\n\n/.test(seen))
      seen += (await reader?.read())?.value ?? "";
    expect(readDataLines(seen)).toHaveLength(1);
    gate.open();
    for (let part = await reader?.read(); part?.value; part = await reader?.read())
      seen += part.value;
    expect(readDataLines(seen).at(-1)).toBe("[DONE]");
    expect(await stream.finalContent()).toBe("late");
  });

  test("gets an HTTP status if its request waits and is then refused", async () => {
    // oxlint-disable-next-line require-yield
    harness.service.script = async function* () {
      // The wait is longer than the time for which the server holds back the headers of an accepted stream.
      await new Promise((resolve) => setTimeout(resolve, 60));
      throw new AssistantError("queue_full", "there are 64 before you", { retryAfterSeconds: 3 });
    };
    const response = await harness.post("/v1/chat/completions", { messages, stream: true });
    expect([response.status, response.headers.get("retry-after")]).toEqual([429, "3"]);
  });

  test("ends with an error when the server closes, and so does a request without streaming", async () => {
    harness.service.script = async function* (_request, signal) {
      yield accepted;
      yield { type: "text", choice: 0, text: "Hel" };
      await forever(signal);
    };
    const streamed = await harness.post("/v1/chat/completions", { messages, stream: true });
    const whole = harness.post("/v1/chat/completions", { messages });
    await expect.poll(() => harness.service.pulled, SHORT_WAIT).toBe(4);
    await harness.server.close();
    expect(readDataLines(await streamed.text()).at(-1)).toContain('"code":"shutting_down"');
    expect((await whole).status).toBe(503);
    expect(await (await whole).json()).toMatchObject({ error: { code: "shutting_down" } });
    expect(harness.service.running).toBe(0);
  });
});
