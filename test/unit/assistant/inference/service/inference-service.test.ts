import { describe, expect, test } from "vitest";
import { AssistantError } from "../../../../../src/assistant/assistant-error.ts";
import type { SchemaCompiler } from "../../../../../src/assistant/inference/service/answer-plan.ts";
import {
  collect,
  createServiceHarness,
  joinText,
  plainRequest,
} from "../../../../support/service-harness.ts";

const never = new AbortController().signal;
const says = (...tokens: string[]) => ({ script: () => ({ tokens }) });

describe("writing the ledger before inference", () => {
  test("is complete before the engine receives anything", async () => {
    await using harness = await createServiceHarness(says("a"));
    let modelsThen = -1;
    harness.ledger.onCommit = () => {
      modelsThen = harness.engine.models.length;
    };
    const events = await collect(harness.service.generate(plainRequest, never));
    expect(modelsThen).toBe(0);
    expect(events[0]).toEqual({ type: "accepted", model: "m", ledgerSeq: 0 });
    expect(harness.ledger.entries[0]).toEqual({
      name: "inference.generate",
      fields: {
        model: "m",
        priority: "interactive",
        prompts: 1,
        choices: 1,
        messages: 0,
        tools: 0,
        guide: "none",
        streamed: true,
        max_tokens: 1024,
      },
      sealed: { prompts_sha256: expect.stringMatching(/^[0-9a-f]{64}$/) },
      seq: 0,
      commit: 1,
    });
  });

  test("prevents generation, embedding and loading if the write fails", async () => {
    await using harness = await createServiceHarness();
    harness.ledger.mode = "down";
    await expect(collect(harness.service.generate(plainRequest, never))).rejects.toMatchObject({
      code: "ledger_unavailable",
    });
    await expect(
      harness.service.embed(
        { model: undefined, texts: ["a"], priority: "interactive", keepAliveMs: undefined },
        never,
      ),
    ).rejects.toMatchObject({ code: "ledger_unavailable" });
    expect(harness.engine.models).toEqual([]);
    expect(await harness.service.health()).toEqual({ engine: "scripted", ledgerOk: false });
  });

  test("does not happen for a refused request, and happens for each embedding", async () => {
    await using harness = await createServiceHarness();
    await expect(
      collect(harness.service.generate({ ...plainRequest, model: "gone" }, never)),
    ).rejects.toMatchObject({ code: "model_not_found" });
    expect(harness.ledger.entries).toEqual([]);
    const embedded = await harness.service.embed(
      { model: "other", texts: ["a", "b"], priority: "background", keepAliveMs: undefined },
      never,
    );
    expect(embedded).toMatchObject({ model: "m", ledgerSeq: 0, tokens: [1, 1] });
    expect(harness.ledger.entries[0]).toMatchObject({
      name: "inference.embed",
      fields: { model: "m", priority: "background", texts: 2 },
    });
  });
});

describe("an answer of the inference service", () => {
  test("has its events in order: accepted, started, text, end", async () => {
    await using harness = await createServiceHarness(says("one", " two"));
    expect(await collect(harness.service.generate(plainRequest, never))).toEqual([
      { type: "accepted", model: "m", ledgerSeq: 0 },
      { type: "started", prompt: 0, promptTokens: 5, cachedTokens: 0 },
      { type: "text", choice: 0, text: "one" },
      { type: "text", choice: 0, text: " two" },
      { type: "end", choice: 0, reason: "stop", completionTokens: 3 },
    ]);
  });

  test("numbers the choices of several prompts consecutively, prompt by prompt", async () => {
    await using harness = await createServiceHarness({
      script: (prompt) => ({ tokens: [prompt, "!"] }),
    });
    const events = await collect(
      harness.service.generate(
        {
          ...plainRequest,
          n: 2,
          prompts: ["a", "b", "c"].map((text) => ({ kind: "text", text })),
        },
        never,
      ),
    );
    expect([0, 1, 2, 3, 4, 5].map((choice) => joinText(events, choice))).toEqual([
      "a!",
      "a!",
      "b!",
      "b!",
      "c!",
      "c!",
    ]);
    expect(events.filter(({ type }) => type === "started")).toHaveLength(3);
    expect(events.filter(({ type }) => type === "end")).toHaveLength(6);
  });

  test("is refused instead of beginning with the event `accepted` if the prompt exceeds the context", async () => {
    await using harness = await createServiceHarness({ contextTokens: 16 });
    const prompts = [{ kind: "text" as const, text: "x".repeat(16) }];
    const [first] = await Promise.allSettled([
      collect(harness.service.generate({ ...plainRequest, prompts }, never)),
    ]);
    expect(first).toMatchObject({ reason: { code: "context_length_exceeded" } });
    const events = harness.service.generate({ ...plainRequest, prompts }, never);
    await expect(events[Symbol.asyncIterator]().next()).rejects.toMatchObject({
      code: "context_length_exceeded",
    });
  });

  test("begins with the event `accepted` after five seconds, even if the model takes longer to load", async () => {
    await using harness = await createServiceHarness({ ...says("a"), loadMs: 30_000 });
    const events = harness.service.generate(plainRequest, never)[Symbol.asyncIterator]();
    const first = events.next();
    let isTold = false;
    void first.then(() => (isTold = true));
    await harness.clock.advance(4_999);
    expect(isTold).toBe(false);
    await harness.clock.advance(1);
    expect(await first).toMatchObject({ value: { type: "accepted" } });
    const second = events.next();
    await harness.clock.advance(25_000);
    expect(await second).toMatchObject({ value: { type: "started" } });
    await events.return?.(undefined);
  });

  test("frees all resources when its caller stops, in every state", async () => {
    await using harness = await createServiceHarness({ ...says("a", "b", "c"), loadMs: 1_000 });
    const leaving = new AbortController();
    const loading = collect(harness.service.generate(plainRequest, leaving.signal));
    await harness.clock.settle();
    leaving.abort(new Error("gone"));
    await expect(loading).rejects.toThrow("gone");
    await harness.clock.advance(1_000);
    const [model] = harness.engine.models;
    if (!model) throw new Error("the load goes on for others");
    const open = model.runner.gate("step");
    const generating = harness.service.generate(plainRequest, never)[Symbol.asyncIterator]();
    await generating.next();
    await generating.next();
    const left = generating.return?.(undefined);
    open();
    await left;
    await harness.clock.settle();
    expect(model.load).toEqual({ active: 0, queued: 0 });
    expect(model.runner.openStreams).toBe(0);
    expect(model.runner.problems).toEqual([]);
    expect(
      (await harness.residency.states()).find(({ id }) => id === "m")?.expiresAt,
    ).toBeGreaterThan(harness.clock.now());
  });

  test("is refused if the model's queue is full, and accepted again when the queue has space", async () => {
    await using harness = await createServiceHarness({ ...says("a"), sequences: 4, queueMax: 1 });
    await collect(harness.service.generate(plainRequest, never));
    const [model] = harness.engine.models;
    const open = model?.runner.gate("step");
    const running = Array.from({ length: 5 }, () =>
      collect(harness.service.generate(plainRequest, never)),
    );
    await harness.clock.settle();
    await expect(collect(harness.service.generate(plainRequest, never))).rejects.toMatchObject({
      code: "queue_full",
      retryAfterSeconds: 2,
    });
    expect(harness.ledger.entries).toHaveLength(6);
    open?.();
    await Promise.all(running);
    await collect(harness.service.generate(plainRequest, never));
  });

  test("ends with an error if the engine exits midway", async () => {
    await using harness = await createServiceHarness({ ...says("a", "b", "c", "d"), stepMs: 10 });
    const texts: string[] = [];
    const reading = (async () => {
      for await (const event of harness.service.generate(plainRequest, never))
        if (event.type === "text") texts.push(event.text);
    })();
    await harness.clock.advance(25);
    harness.engine.models[0]?.crash();
    await expect(reading).rejects.toMatchObject({ code: "engine_failed" });
    expect(texts).toEqual(["a", "b"]);
  });
});

/** Returns a schema compiler whose only valid document is `good`. The model's attempts return `answers` in turn. */
function onlyGood(...answers: readonly string[]): SchemaCompiler {
  let asked = 0;
  return {
    compileLayout: async () => ({
      gbnf: "root ::= [a-z]+",
      get example() {
        return answers[asked++] ?? "none";
      },
    }),
    validate: async (_, document) => (document === "good" ? [] : ["it is not good"]),
  };
}
const guided = {
  ...plainRequest,
  guide: { kind: "json_schema", name: undefined, schema: {}, strict: true } as const,
};

describe("an answer with a schema", () => {
  test("is sampled once more with another seed if its document is invalid", async () => {
    await using harness = await createServiceHarness({ schemas: onlyGood('"bad"', '"good"') });
    const events = await collect(
      harness.service.generate({ ...guided, isStreamed: false, sampling: { seed: 1 } }, never),
    );
    expect(joinText(events)).toBe('"good"');
    expect(events.filter(({ type }) => type === "started")).toHaveLength(1);
    expect(harness.ledger.entries).toHaveLength(1);
  });

  test.each(['"bad"', "no JSON"])("fails after a second invalid document (%s)", async (answer) => {
    await using harness = await createServiceHarness({
      schemas: onlyGood(answer, answer, '"good"'),
    });
    await expect(
      collect(harness.service.generate({ ...guided, isStreamed: false }, never)),
    ).rejects.toMatchObject({ code: "invalid_output" });
  });

  test("fails at the end of a stream if its document is invalid", async () => {
    await using harness = await createServiceHarness({ schemas: onlyGood('"bad"') });
    const events: string[] = [];
    const stream = async () => {
      for await (const event of harness.service.generate(guided, never)) events.push(event.type);
    };
    await expect(stream()).rejects.toMatchObject({ code: "invalid_output" });
    expect(new Set(events)).toEqual(new Set(["accepted", "started", "text"]));
  });

  test("ends with `length` and without an error if the token limit cut it off", async () => {
    await using harness = await createServiceHarness({ schemas: onlyGood('"bad"') });
    const events = await collect(
      harness.service.generate({ ...guided, isStreamed: false, maxTokens: 1 }, never),
    );
    expect(joinText(events)).toBe('"');
    expect(events.at(-1)).toMatchObject({ type: "end", reason: "length" });
  });
});

describe("a tool call that the token limit cuts off", () => {
  const prompt = {
    kind: "chat",
    messages: [{ role: "user", content: "Rain?" }],
    tools: [{ name: "weather", description: undefined, parameters: { type: "object" } }],
    variables: {},
  } as const;
  const called = (text: string, isStreamed: boolean, maxTokens: number) => ({
    options: { ...says(...Array.from(text)), schemas: onlyGood(text), contextTokens: 2_000 },
    request: { ...plainRequest, prompts: [prompt], isStreamed, maxTokens },
  });
  const one = '<tool_call>\n{"name": "weather", "arguments": {"city": "Graz"}}\n</tool_call>';
  const cut = one.length - 20;

  test("is left out of an answer that is not streamed; the calls before it stay", async () => {
    const { options, request } = called(`${one}\n${one}`, false, one.length + cut);
    await using harness = await createServiceHarness(options);
    const events = await collect(harness.service.generate(request, never));
    const calls = events.filter(({ type }) => type === "tool_call");
    expect(new Set(calls.map((event) => "index" in event && event.index))).toEqual(new Set([0]));
    expect(calls.map((event) => ("arguments" in event ? event.arguments : "")).join("")).toBe(
      '{"city": "Graz"}',
    );
    expect(events.at(-1)).toMatchObject({ type: "end", reason: "length" });
  });

  test("is part of a streamed answer, whose client has received its beginning", async () => {
    const { options, request } = called(one, true, cut);
    await using harness = await createServiceHarness(options);
    const events = await collect(harness.service.generate(request, never));
    expect(events.filter(({ type }) => type === "tool_call")).not.toEqual([]);
    expect(events.at(-1)).toMatchObject({ type: "end", reason: "length" });
  });
});

describe("a model without a chat template", () => {
  const base = { ...says("a"), facts: { kind: "completion" as const } };
  const chat = {
    ...plainRequest,
    prompts: [
      { kind: "chat", messages: [{ role: "user", content: "Hi" }], tools: [], variables: {} },
    ] as const,
  };

  test("refuses a chat with the reason, and writes no ledger entry", async () => {
    await using harness = await createServiceHarness(base);
    await expect(collect(harness.service.generate(chat, never))).rejects.toMatchObject({
      code: "model_unsuitable",
      message: expect.stringContaining(
        "model m is not a chat model: its file has no chat template",
      ),
    });
    expect(harness.ledger.entries).toEqual([]);
  });

  test("continues a text", async () => {
    await using harness = await createServiceHarness(base);
    expect(joinText(await collect(harness.service.generate(plainRequest, never)))).toBe("a");
  });
});

test("the health names the models that should stay in memory but could not be loaded", async () => {
  await using harness = await createServiceHarness({
    ...says("a"),
    models: ["m", "other-model"],
    refuse: ({ id }) =>
      id === "p" ? new AssistantError("model_unusable", "the file of p is damaged") : undefined,
  });
  await harness.known.register({ id: "p", path: "", isPinned: true });
  await harness.residency.loadPinned();
  expect(await harness.service.health()).toMatchObject({
    failedModels: [{ id: "p", message: "the file of p is damaged" }],
  });
});

describe("the list of models of the inference service", () => {
  test("shows the states of the models, and the default model first", async () => {
    await using harness = await createServiceHarness({ ...says("a"), models: ["a", "m"] });
    await collect(harness.service.generate({ ...plainRequest, model: "other" }, never));
    const models = await harness.service.models();
    expect(models.map(({ id, state }) => [id, state])).toEqual([
      ["m", "resident"],
      ["a", "idle"],
    ]);
    expect(await harness.service.model("other")).toMatchObject({ id: "m", aliases: ["other"] });
    expect(await harness.service.model("nobody")).toBeUndefined();
  });

  test("shows the reason of a model's failure", async () => {
    await using harness = await createServiceHarness({
      ...says("a"),
      models: ["m", "n"],
      refuse: ({ id }) =>
        id === "m"
          ? new AssistantError("model_unusable", "it is cut off; get it again")
          : new Error("/secret/path"),
    });
    expect(await harness.service.models()).toMatchObject([
      { id: "m", state: "failed", failure: "it is cut off; get it again" },
      { id: "n", state: "failed", failure: "model n could not be loaded" },
    ]);
  });
});
