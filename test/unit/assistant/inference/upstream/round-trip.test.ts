import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { AssistantError } from "../../../../../src/assistant/assistant-error.ts";
import type {
  AnswerEvent,
  GenerateRequest,
} from "../../../../../src/assistant/inference/service-port.ts";
import { UpstreamInference } from "../../../../../src/assistant/inference/upstream/upstream-inference.ts";
import { systemClock } from "../../../../../src/base/clock.ts";
import { silentLogger } from "../../../../../src/base/logger.ts";
import { FakeLedger } from "../../../../support/fake-ledger.ts";
import {
  type InferenceHttpHarness,
  SHORT_WAIT,
  startInferenceHttp,
} from "../../../../support/inference-http-harness.ts";
import { accepted, forever, Gate, says, started } from "../../../../support/scripted-service.ts";
import { collect, plainRequest } from "../../../../support/service-harness.ts";

/** The real HTTP server over a scripted service: requests and answers must pass unchanged in both directions. */
let system: InferenceHttpHarness;
let ledger: FakeLedger;
let upstream: UpstreamInference;
const signal = new AbortController().signal;
/** The system instance knows only that a program on this machine asked. */
const asker = { door: "http", uid: undefined } as const;

beforeEach(async () => {
  system = await startInferenceHttp();
  ledger = new FakeLedger();
  upstream = new UpstreamInference({
    url: system.url,
    ledger,
    clock: systemClock,
    logger: silentLogger,
  });
});

afterEach(async () => {
  await upstream[Symbol.asyncDispose]();
  await system[Symbol.asyncDispose]();
});

const rejectionOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => {
      throw new Error("it did not reject");
    },
    (error: unknown) => error,
  );

const chat: GenerateRequest = {
  ...plainRequest,
  sampling: {},
  toolChoice: { kind: "none" },
  prompts: [
    {
      kind: "chat",
      messages: [{ role: "user", content: "Hi", name: undefined, toolCalls: undefined }],
      tools: [],
      variables: {},
    },
  ],
};

const tool = { name: "add", description: "adds", parameters: { type: "object", properties: {} } };

const whole: GenerateRequest = {
  model: "tiny",
  n: 2,
  prompts: [
    {
      kind: "chat",
      messages: [
        { role: "developer", content: "Be short." },
        { role: "user", content: "What is 1 + 1? \u{1F600}\n", name: "ada" },
        {
          role: "assistant",
          content: "",
          toolCalls: [{ id: "call_1", name: "add", arguments: '{"a":1}' }],
        },
        { role: "tool", content: "2", toolCallId: "call_1" },
      ],
      tools: [tool, { name: "bare" }],
      variables: { enable_thinking: false, reasoning_effort: "low", more: [1, { a: null }] },
    },
  ],
  sampling: {
    temperature: 0.5,
    topP: 0.9,
    topK: 7,
    minP: 0.1,
    seed: 42,
    repeatPenalty: 1.1,
    presencePenalty: -0.5,
    frequencyPenalty: 0.25,
    logitBias: { "12": -100 },
    logprobs: 2,
  },
  maxTokens: Number.POSITIVE_INFINITY,
  stop: ["\n\n", "END"],
  priority: "background",
  guide: { kind: "none" },
  toolChoice: { kind: "function", name: "add" },
  parallelToolCalls: false,
  isStreamed: false,
  keepAliveMs: 1_500,
};

const plain: GenerateRequest = {
  ...plainRequest,
  sampling: {},
  toolChoice: { kind: "none" },
  parallelToolCalls: false,
};

describe("a request to the assistant's system instance arrives unchanged", () => {
  const requests: Readonly<Record<string, GenerateRequest>> = {
    "a chat with a minimum of fields": chat,
    "a chat with all fields": whole,
    "a chat that keeps the model in memory without a time limit, and asks for a JSON object": {
      ...chat,
      keepAliveMs: Number.POSITIVE_INFINITY,
      guide: { kind: "json_object" },
    },
    "a chat with a schema": {
      ...whole,
      stop: [],
      guide: { kind: "json_schema", name: "sum", schema: { type: "number" }, strict: true },
    },
    "a chat with optional tools": {
      ...whole,
      stop: [],
      guide: { kind: "json_schema", name: undefined, schema: true, strict: false },
      toolChoice: { kind: "auto" },
      keepAliveMs: 0,
    },
    "a chat with required tools": { ...whole, toolChoice: { kind: "required" } },
    "a chat with forbidden tools": { ...whole, toolChoice: { kind: "none" }, maxTokens: 5 },
    "a plain prompt": plain,
    "a list of plain prompts, as text and as token ids": {
      ...plain,
      isStreamed: false,
      n: 3,
      prompts: [
        { kind: "text", text: "once" },
        { kind: "tokens", tokens: [1, 2, 3] },
      ],
      sampling: { logprobs: 5, temperature: 0 },
      guide: { kind: "json_schema", name: undefined, schema: { type: "null" }, strict: false },
    },
    "one prompt of token ids": { ...plain, prompts: [{ kind: "tokens", tokens: [7] }] },
  };

  test.each(Object.entries(requests))("if it is %s", async (_, request) => {
    await collect(upstream.generate(request, signal));
    expect(system.service.requests).toEqual([{ ...request, asker }]);
  });
});

async function toldBy(events: readonly AnswerEvent[], request = chat): Promise<AnswerEvent[]> {
  system.service.script = () => events;
  return collect(upstream.generate(request, signal));
}

describe("events of the assistant's system instance arrive unchanged", () => {
  const mine = { ...accepted, ledgerSeq: 0 };

  test("if they have text with the logprobs of each piece", async () => {
    const request = { ...chat, n: 2, sampling: { logprobs: 2 } };
    const events = [...says(request, ["Hello", " ", "\u{1F600}"])].map((event) =>
      // JSON cannot represent -Infinity, so the HTTP API sends -9999 instead.
      JSON.parse(JSON.stringify(event, (_, value) => (value === -Infinity ? -9999 : value))),
    );
    expect(await toldBy(events, request)).toEqual([mine, ...events.slice(1)]);
  });

  test("if they have the logprobs of a plain completion", async () => {
    const request = { ...plain, sampling: { logprobs: 1 } };
    const events = [...says(request, ["Hello", " there"], "length")];
    expect(await toldBy(events, request)).toEqual([mine, ...events.slice(1)]);
  });

  test("if prompts start at different times and choices are interleaved", async () => {
    const request: GenerateRequest = {
      ...plain,
      prompts: [
        { kind: "text", text: "a" },
        { kind: "text", text: "b" },
      ],
    };
    const events: AnswerEvent[] = [
      accepted,
      { type: "started", prompt: 1, promptTokens: 9, cachedTokens: 0 },
      { type: "text", choice: 1, text: "one" },
      { type: "started", prompt: 0, promptTokens: 4, cachedTokens: 3 },
      { type: "text", choice: 0, text: "two" },
      { type: "end", choice: 1, reason: "length", completionTokens: 17 },
      { type: "text", choice: 0, text: " three" },
      { type: "end", choice: 0, reason: "stop", completionTokens: 3, reasoningTokens: 1 },
    ];
    expect(await toldBy(events, request)).toEqual([mine, ...events.slice(1)]);
  });

  test("if they have reasoning and tool calls", async () => {
    const events: AnswerEvent[] = [
      accepted,
      started(),
      { type: "reasoning", choice: 0, text: "hm" },
      { type: "text", choice: 0, text: "I will." },
      {
        type: "tool_call",
        choice: 0,
        index: 0,
        start: { id: "call_a", name: "add" },
        arguments: "",
      },
      { type: "tool_call", choice: 0, index: 0, arguments: '{"a":' },
      { type: "tool_call", choice: 0, index: 0, arguments: "1}" },
      {
        type: "tool_call",
        choice: 0,
        index: 1,
        start: { id: "call_b", name: "bare" },
        arguments: "{}",
      },
      { type: "end", choice: 0, reason: "tool_calls", completionTokens: 9, reasoningTokens: 1 },
    ];
    const request: GenerateRequest = { ...whole, n: 1, guide: { kind: "none" } };
    expect(await toldBy(events, request)).toEqual([mine, ...events.slice(1)]);
  });

  test("if the answer contains no text", async () => {
    const end = { type: "end", choice: 0, reason: "stop", completionTokens: 0 } as const;
    expect(await toldBy([accepted, started(), end], plain)).toEqual([mine, started(), end]);
  });

  test("one at a time, as soon as the system instance sends each", async () => {
    const more = new Gate();
    system.service.script = async function* () {
      yield* [accepted, started(), { type: "text", choice: 0, text: "a" } as const];
      await more.opened;
      yield { type: "end", choice: 0, reason: "stop", completionTokens: 1 };
    };
    const events = upstream.generate(plain, signal);
    expect((await events.next()).value).toMatchObject({ type: "accepted", model: "tiny" });
    expect((await events.next()).value).toMatchObject({ type: "started", promptTokens: 5 });
    expect((await events.next()).value).toMatchObject({ type: "text", text: "a" });
    more.open();
    expect((await events.next()).value).toMatchObject({ type: "end" });
    expect((await events.next()).done).toBe(true);
  });
});

describe("errors of the assistant's system instance arrive unchanged", () => {
  const cases: readonly (readonly [GenerateRequest, AssistantError])[] = [
    [chat, new AssistantError("unsupported_schema", "no", { param: "guide.schema" })],
    [whole, new AssistantError("unsupported_schema", "no", { param: "tools[1].parameters" })],
    [chat, new AssistantError("context_length_exceeded", "too long", { param: "prompts" })],
    [plain, new AssistantError("context_length_exceeded", "too long", { param: "prompts[0]" })],
    [chat, new AssistantError("invalid_request", "no token", { param: "sampling.logitBias" })],
    [chat, new AssistantError("invalid_request", "too many", { param: "sampling.topP" })],
    [chat, new AssistantError("invalid_request", "too many", { param: "maxTokens" })],
    [chat, new AssistantError("model_not_found", "no such model", { param: "model" })],
    [chat, new AssistantError("queue_full", "later", { retryAfterSeconds: 4 })],
    [chat, new AssistantError("ledger_unavailable", "the disk is full")],
    [chat, new AssistantError("no_model", "none")],
  ];

  test.each(cases)("if a request gets no answer (case %#)", async (request, error) => {
    system.service.script = () => {
      throw error;
    };
    const thrown = await rejectionOf(collect(upstream.generate(request, signal)));
    expect(thrown).toBeInstanceOf(AssistantError);
    expect(thrown).toMatchObject({
      code: error.code,
      message: error.message,
      param: error.param,
      retryAfterSeconds: error.retryAfterSeconds,
    });
  });

  test("if an answer fails midway, after the events that have arrived", async () => {
    system.service.script = function* () {
      yield* [accepted, started(), { type: "text", choice: 0, text: "a" } as const];
      throw new AssistantError("invalid_output", "it does not fit");
    };
    const seen: AnswerEvent[] = [];
    const thrown = await rejectionOf(
      (async () => {
        for await (const event of upstream.generate(chat, signal)) seen.push(event);
      })(),
    );
    expect(seen.map(({ type }) => type)).toEqual(["accepted", "started", "text"]);
    expect(thrown).toMatchObject({ code: "invalid_output", message: "it does not fit" });
  });

  test("if an embedding fails, with the position of the text", async () => {
    system.service.embedder = () =>
      Promise.reject(
        new AssistantError("context_length_exceeded", "too long", { param: "texts[1]" }),
      );
    const request = { ...plain, texts: ["a", "b"] };
    await expect(upstream.embed(request, signal)).rejects.toMatchObject({
      code: "context_length_exceeded",
      param: "texts[1]",
    });
  });
});

describe("the connection to the assistant's system instance", () => {
  test("an abort ends the pending read at once, and stops the work of the server", async () => {
    system.service.script = async function* (_, there) {
      yield* [accepted, started(), { type: "text", choice: 0, text: "a" } as const];
      await forever(there);
    };
    const leaving = new AbortController();
    const events = upstream.generate(chat, leaving.signal);
    for (let pulled = 0; pulled < 3; pulled++) await events.next();
    const pending = rejectionOf(events.next());
    leaving.abort(new Error("enough"));
    expect(await pending).toMatchObject({ message: "enough" });
    await expect.poll(() => system.service.running, SHORT_WAIT).toBe(0);
    expect(system.service.aborted).toBe(1);
  });

  test("a caller that stops iterating over the events stops the work of the server", async () => {
    system.service.script = async function* (_, there) {
      yield* [accepted, started(), { type: "text", choice: 0, text: "a" } as const];
      await forever(there);
    };
    for await (const event of upstream.generate(chat, signal)) if (event.type === "text") break;
    await expect.poll(() => system.service.running, SHORT_WAIT).toBe(0);
  });

  test("a caller that reads no events makes the server pause", async () => {
    const text = "x".repeat(50_000);
    system.service.script = function* () {
      yield* [accepted, started()];
      for (let count = 0; count < 1_000; count++) yield { type: "text", choice: 0, text };
      yield { type: "end", choice: 0, reason: "stop", completionTokens: 1_000 };
    };
    const events = upstream.generate(plain, signal);
    await events.next();
    // The answer of 50 MB does not fit into the buffers of the sockets, so the server must pause until the client reads
    // more.
    let before = -1;
    await expect
      .poll(
        () => {
          const same = system.service.pulled === before && before > 2;
          before = system.service.pulled;
          return same;
        },
        { timeout: 20_000, interval: 200 },
      )
      .toBe(true);
    expect(system.service.pulled).toBeLessThan(900);
    let length = 0;
    for await (const event of events) if (event.type === "text") length += event.text.length;
    expect(length).toBe(50_000_000);
  });

  test("several requests one after the other use the same connection", async () => {
    const ports = new Set<number | undefined>();
    system.server.server.on("request", ({ socket }) => ports.add(socket.remotePort));
    for (let round = 0; round < 5; round++) await collect(upstream.generate(chat, signal));
    await upstream.models();
    expect(ports.size).toBe(1);
  });
});

describe("embeddings, models and health of the system instance, over HTTP", () => {
  test("embeddings arrive bit for bit equal, with the number of tokens of each text", async () => {
    const request = {
      model: "embedder",
      texts: ["one", "three"],
      priority: "background",
      keepAliveMs: undefined,
    } as const;
    const direct = await system.service.embedder(request, signal);
    expect(await upstream.embed(request, signal)).toEqual({ ...direct, ledgerSeq: 0 });
    expect(system.service.embeds).toEqual([{ ...request, asker }]);
  });

  test("models arrive with all their fields", async () => {
    const failed = {
      ...system.service.known[0],
      id: "broken",
      state: "failed",
      failure: "damaged",
    };
    system.service.known.push(Object.assign({}, system.service.known[1], failed));
    expect(await upstream.models()).toEqual(system.service.known);
    expect(await upstream.model("default")).toMatchObject({ id: "tiny" });
    expect(await upstream.model("hub/org/embedder:q8")).toMatchObject({ kind: "embedding" });
    expect(await upstream.model("other")).toBeUndefined();
  });

  test("the first health report has the server's engine and state", async () => {
    expect(await upstream.health()).toEqual({ engine: "scripted", ledgerOk: true, upstream: "ok" });
  });

  test("the health report names the server's models that could not be loaded", async () => {
    const failedModels = [{ id: "minilm", message: "the file is damaged" }];
    system.service.healthAnswer = { engine: "scripted", ledgerOk: true, failedModels };
    expect(await upstream.health()).toMatchObject({ failedModels, upstream: "ok" });
  });

  test("the health report says that the server refuses requests", async () => {
    system.service.healthAnswer = { engine: "scripted", ledgerOk: false };
    expect(await upstream.health()).toMatchObject({ ledgerOk: true, upstream: "degraded" });
  });
});

describe("the ledger entry of a request to the system instance", () => {
  test("describes the request and contains none of its text", async () => {
    await collect(upstream.generate(whole, signal));
    await upstream.embed({ ...chat, texts: ["secret"] }, signal);
    expect(ledger.entries.map(({ name }) => name)).toEqual([
      "inference.generate",
      "inference.embed",
    ]);
    expect(ledger.entries[0]?.fields).toMatchObject({ model: "tiny", choices: 2, messages: 4 });
    expect(ledger.entries[1]?.fields).toMatchObject({ model: "default", texts: 1 });
  });

  test("is written before anything is sent, and a failed entry prevents the request", async () => {
    let requests = 0;
    system.server.server.on("connection", () => requests++);
    ledger.onAppend = () => expect(system.service.requests).toEqual([]);
    ledger.mode = "down";
    const refused = { code: "ledger_unavailable" };
    await expect(collect(upstream.generate(chat, signal))).rejects.toMatchObject(refused);
    await expect(upstream.embed({ ...chat, texts: ["a"] }, signal)).rejects.toMatchObject(refused);
    expect([requests, system.service.requests, system.service.embeds]).toEqual([0, [], []]);
    ledger.mode = "ok";
    await collect(upstream.generate(chat, signal));
    expect(requests).toBe(1);
  });

  test("is written only when the first event is requested", async () => {
    upstream.generate(chat, signal);
    await upstream.models();
    expect(ledger.entries).toEqual([]);
  });
});
