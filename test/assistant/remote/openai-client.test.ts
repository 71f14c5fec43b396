import OpenAI from "openai";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { AssistantError, type AssistantErrorCode } from "../../../src/assistant/assistant-error.ts";
import {
  type InferenceHttpHarness,
  SHORT_WAIT,
  startInferenceHttp,
} from "../../support/inference-http-harness.ts";
import {
  KEY,
  type RemoteModelsHarness,
  startRemoteModels,
} from "../../support/provider/remote-models-harness.ts";
import { accepted, forever, ScriptedService } from "../../support/scripted-service.ts";

const there = "remote:there:test-model";
const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: "hi" }];

describe("a request of the openai client to a remote model", () => {
  let remote: ScriptedService;
  let harness: InferenceHttpHarness;
  beforeEach(async () => {
    remote = new ScriptedService();
    harness = await startInferenceHttp({ remote });
  });
  afterEach(() => harness[Symbol.asyncDispose]());

  const classes: readonly (readonly [
    AssistantErrorCode,
    unknown,
    number,
    string,
    null | "false",
  ])[] = [
    ["consent_required", OpenAI.PermissionDeniedError, 403, "permission_error", null],
    ["unauthorized", OpenAI.AuthenticationError, 401, "authentication_error", null],
    ["model_not_found", OpenAI.NotFoundError, 404, "invalid_request_error", null],
    ["rate_limited", OpenAI.RateLimitError, 429, "rate_limit_error", null],
    ["unreachable", OpenAI.InternalServerError, 502, "server_error", null],
    ["provider_failed", OpenAI.InternalServerError, 502, "server_error", null],
    ["cut_off", OpenAI.InternalServerError, 502, "server_error", null],
    ["bad_response", OpenAI.InternalServerError, 502, "server_error", "false"],
    ["timeout", OpenAI.InternalServerError, 504, "server_error", null],
    ["ledger_unavailable", OpenAI.InternalServerError, 503, "service_unavailable", "false"],
  ];

  describe.each(classes)("that is refused with %s", (code, type, status, family, retry) => {
    const error = () =>
      new AssistantError(
        code,
        `it is ${code}`,
        code === "rate_limited" ? { retryAfterSeconds: 7 } : {},
      );

    test("makes the client throw its own error class if no text has arrived yet", async () => {
      remote.script = async function* () {
        yield* [];
        throw error();
      };
      remote.embedder = () => Promise.reject(error());
      const asks = [
        () => harness.openai.chat.completions.create({ model: there, messages }),
        () => harness.openai.chat.completions.create({ model: there, messages, stream: true }),
        () => harness.openai.completions.create({ model: there, prompt: "hi" }),
        () => harness.openai.embeddings.create({ model: there, input: "hi" }),
      ];
      for (const ask of asks) {
        const thrown: unknown = await ask().catch((reason: unknown) => reason);
        expect(thrown).toBeInstanceOf(type);
        if (!(thrown instanceof OpenAI.APIError)) throw new Error("it is another error");
        expect(thrown).toMatchObject({ status, code, type: family });
        expect(thrown.message).toBe(`${status} it is ${code}`);
        expect(thrown.headers?.get("retry-after")).toBe(code === "rate_limited" ? "7" : null);
        expect(thrown.headers?.get("x-should-retry")).toBe(retry);
      }
    });

    test("ends the stream with an error event that has the provider's code if text has already arrived", async () => {
      remote.script = async function* () {
        yield { ...accepted, model: there };
        yield { type: "text", choice: 0, text: "so far" };
        throw error();
      };
      const create = { model: there, messages, stream: true } as const;
      const stream = await harness.openai.chat.completions.create(create);
      let text = "";
      const thrown: unknown = await (async () => {
        for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
      })().catch((reason: unknown) => reason);
      expect(text).toBe("so far");
      expect(thrown).toBeInstanceOf(OpenAI.APIError);
      expect(thrown).toMatchObject({ code, type: family, message: `it is ${code}` });
    });
  });

  test("is retried by the client only if a retry may succeed", async () => {
    const client = new OpenAI({ baseURL: `${harness.url}/v1`, apiKey: "any", maxRetries: 1 });
    const asked: Record<string, number> = {};
    for (const code of [
      "consent_required",
      "unauthorized",
      "bad_response",
      "unreachable",
    ] as const) {
      remote.requests.length = 0;
      remote.script = async function* () {
        yield* [];
        throw new AssistantError(code, `it is ${code}`, { retryAfterSeconds: 0 });
      };
      await client.chat.completions.create({ model: there, messages }).catch(() => {});
      asked[code] = remote.requests.length;
    }
    expect(asked).toEqual({
      consent_required: 1,
      unauthorized: 1,
      bad_response: 1,
      unreachable: 2,
    });
  });

  test("ends at the provider when the client disconnects during the stream", async () => {
    remote.script = async function* (_, signal) {
      yield { ...accepted, model: there };
      yield { type: "text", choice: 0, text: "so far" };
      await forever(signal);
    };
    const create = { model: there, messages, stream: true } as const;
    const stream = await harness.openai.chat.completions.create(create);
    for await (const chunk of stream) {
      if (chunk.choices[0]?.delta.content) stream.controller.abort();
    }
    await expect.poll(() => [remote.aborted, remote.running], SHORT_WAIT).toEqual([1, 0]);
  });
});

describe("a provider behind TLS", () => {
  let elsewhere: RemoteModelsHarness;
  let openai: OpenAI;
  async function start(options: Parameters<typeof startRemoteModels>[0] = {}): Promise<void> {
    elsewhere = await startRemoteModels(options);
    openai = elsewhere.http.openai;
  }
  afterEach(() => elsewhere[Symbol.asyncDispose]());

  const bodyOf = (index = -1): Record<string, unknown> => {
    const body: unknown = elsewhere.provider.requests.at(index)?.body;
    return typeof body === "object" ? { ...body } : {};
  };

  test("answers a chat as one document and as a stream, and each request is in the ledger before it is sent", async () => {
    await start();
    const whole = await openai.chat.completions.create({ model: there, messages });
    expect(whole.choices[0]?.message.content).toBe("You said: hi");
    expect(whole).toMatchObject({ model: there, object: "chat.completion" });
    expect(whole.usage?.completion_tokens).toBeGreaterThan(0);
    const create = { model: there, messages, stream: true } as const;
    let text = "";
    for await (const chunk of await openai.chat.completions.create(create)) {
      text += chunk.choices[0]?.delta.content ?? "";
      expect(chunk.model).toBe(there);
    }
    expect(text).toBe("You said: hi");
    const names = elsewhere.ledger.entries.map(({ name }) => name);
    expect(names).toEqual([
      "inference.generate",
      "egress.send",
      "inference.generate",
      "egress.send",
    ]);
    expect(elsewhere.http.service.requests).toEqual([]);
    expect(elsewhere.directory.statuses.get("there")).toBe("ok");
  });

  test("receives tools, response formats, sampling parameters, and parameters that Berth does not know", async () => {
    await start();
    elsewhere.provider.next({
      type: "chat",
      toolCalls: [{ id: "call_1", name: "weather", arguments: '{"city":"Bern"}' }],
    });
    const tools: OpenAI.ChatCompletionTool[] = [
      { type: "function", function: { name: "weather", parameters: { type: "object" } } },
    ];
    const { data, response } = await openai.chat.completions
      .create({
        model: there,
        messages,
        tools,
        tool_choice: "required",
        temperature: 0.5,
        stop: ["x"],
        n: 1,
        logprobs: true,
        top_logprobs: 2,
        user: "ann",
        service_tier: "flex",
        reasoning_effort: "low",
      })
      .withResponse();
    expect(response.headers.get("x-berth-ignored")).toBeNull();
    expect(data.choices[0]).toMatchObject({
      finish_reason: "tool_calls",
      message: { tool_calls: [{ function: { name: "weather", arguments: '{"city":"Bern"}' } }] },
    });
    expect(bodyOf()).toMatchObject({
      model: "test-model",
      tools,
      tool_choice: "required",
      temperature: 0.5,
      stop: ["x"],
      logprobs: true,
      top_logprobs: 2,
      user: "ann",
      service_tier: "flex",
      reasoning_effort: "low",
    });
  });

  test("receives a schema, and is asked a second time if its answer is not JSON", async () => {
    await start();
    elsewhere.provider.next(
      { type: "chat", text: ["not ", "json"] },
      { type: "chat", text: ['{"a":', "1}"] },
    );
    const schema = { type: "object", properties: { a: { type: "integer" } } };
    const { choices } = await openai.chat.completions.create({
      model: there,
      messages,
      response_format: { type: "json_schema", json_schema: { name: "x", schema } },
    });
    expect(choices[0]?.message.content).toBe('{"a":1}');
    expect(elsewhere.provider.requests).toHaveLength(2);
    expect(bodyOf()).toMatchObject({ response_format: { json_schema: { name: "x", schema } } });
  });

  test("returns embeddings", async () => {
    await start();
    const input = ["abc", "xyz"];
    const { data } = await openai.embeddings.create({ model: "remote:there:test-embedder", input });
    expect(data.map(({ embedding }) => Math.hypot(...embedding))).toEqual([
      expect.closeTo(1, 5),
      expect.closeTo(1, 5),
    ]);
    expect(bodyOf()).toMatchObject({ model: "test-embedder", input });
  });

  test("has its models listed in addition to the local ones", async () => {
    await start({ aliases: new Map([["best", [there, "tiny"]]]) });
    const ids = (await openai.models.list()).data.map(({ id }) => id);
    expect(ids).toEqual([
      "tiny",
      "hub/org/embedder:q8",
      "best",
      there,
      "remote:there:test-embedder",
    ]);
    expect((await openai.models.retrieve(there)).id).toBe(there);
  });

  test("receives nothing without consent, on every route", async () => {
    const aliases = new Map([
      ["best", [there, "tiny"]],
      ["near", ["tiny", there]],
    ]);
    await start({ allowed: [], aliases });
    const { service } = elsewhere.http;
    service.script = async function* () {
      yield* [];
      throw new AssistantError("no_model", "there is none");
    };
    for (const model of [there, "best", "near"]) {
      const thrown: unknown = await openai.chat.completions
        .create({ model, messages })
        .catch((reason: unknown) => reason);
      expect(thrown).toBeInstanceOf(OpenAI.PermissionDeniedError);
      expect(thrown).toMatchObject({ code: "consent_required", type: "permission_error" });
    }
    expect(service.requests.map(({ model }) => model)).toEqual(["tiny"]);
    expect(elsewhere.provider.connectionsTotal).toBe(0);
    expect(elsewhere.ledger.entries).toEqual([]);
  });

  test("receives a request only with consent for everything that svc_scopes declares", async () => {
    await start();
    const create = { model: there, messages, svc_scopes: ["files"] };
    const ask = () => openai.chat.completions.create(create);
    await expect(ask()).rejects.toThrow(OpenAI.PermissionDeniedError);
    expect(elsewhere.provider.requests).toEqual([]);
    elsewhere.consent.set("files", true);
    await ask();
    expect(bodyOf()).not.toHaveProperty("svc_scopes");
    expect(elsewhere.ledger.entries.at(-1)?.fields).toMatchObject({ classes: ["prompt", "files"] });
  });

  test.each([
    [401, OpenAI.AuthenticationError, "unauthorized"],
    [404, OpenAI.NotFoundError, "model_not_found"],
    [429, OpenAI.RateLimitError, "rate_limited"],
    [500, OpenAI.InternalServerError, "provider_failed"],
    [302, OpenAI.InternalServerError, "bad_response"],
  ])("that answers with the status %i causes the error code %s", async (status, type, code) => {
    await start();
    const headers = { "retry-after": "9", location: "https://elsewhere.test/" };
    elsewhere.provider.next({
      type: "status",
      status,
      headers,
      body: { error: { message: "no" } },
    });
    const thrown: unknown = await openai.chat.completions
      .create({ model: there, messages, stream: true })
      .catch((reason: unknown) => reason);
    expect(thrown).toBeInstanceOf(type);
    expect(thrown).toMatchObject({ code });
    if (thrown instanceof OpenAI.RateLimitError)
      expect(thrown.headers.get("retry-after")).toBe("9");
    expect(JSON.stringify(thrown)).not.toContain(KEY);
  });

  test("that cuts the connection midway ends the client's stream with an error", async () => {
    await start();
    elsewhere.provider.next({
      type: "chat",
      text: ["so ", "far"],
      afterwards: { after: 2, do: "cut" },
    });
    const create = { model: there, messages, stream: true } as const;
    let text = "";
    const reading = (async () => {
      for await (const chunk of await openai.chat.completions.create(create))
        text += chunk.choices[0]?.delta.content ?? "";
    })();
    await expect(reading).rejects.toMatchObject({ code: "cut_off" });
    expect(text).toBe("so far");
  });

  test("that cannot answer now is skipped for the next model of the alias, and each attempt has a ledger entry", async () => {
    await start({ aliases: new Map([["best", [there, "tiny"]]]) });
    elsewhere.provider.next({ type: "status", status: 429, body: { error: { message: "slow" } } });
    const { model, choices } = await openai.chat.completions.create({ model: "best", messages });
    expect([model, choices[0]?.message.content]).toEqual(["tiny", "Hello there"]);
    expect(elsewhere.provider.requests).toHaveLength(1);
    expect(elsewhere.ledger.entries.map(({ name }) => name)).toEqual([
      "inference.generate",
      "egress.send",
    ]);
    const again = await openai.chat.completions.create({ model: "best", messages });
    expect(again.model).toBe(there);
  });

  test("notices that its request ends when the client aborts during the stream", async () => {
    await start();
    elsewhere.provider.next({
      type: "chat",
      text: ["so far"],
      afterwards: { after: 1, do: "hang" },
    });
    const create = { model: there, messages, stream: true } as const;
    const stream = await openai.chat.completions.create(create);
    for await (const chunk of stream) {
      if (chunk.choices[0]?.delta.content) stream.controller.abort();
    }
    await elsewhere.provider.until(({ requests }) => requests[0]?.state === "left");
    expect(elsewhere.provider.requests).toHaveLength(1);
  });

  test("notices that its request ends when consent is revoked during the stream, and the client gets the reason", async () => {
    await start();
    elsewhere.provider.next({
      type: "chat",
      text: ["so far"],
      afterwards: { after: 1, do: "hang" },
    });
    const create = { model: there, messages, stream: true } as const;
    const stream = await openai.chat.completions.create(create);
    const reading = (async () => {
      for await (const chunk of stream) {
        if (chunk.choices[0]?.delta.content) elsewhere.consent.set("prompt", false);
      }
    })();
    await expect(reading).rejects.toMatchObject({ code: "consent_required" });
    await elsewhere.provider.until(({ requests }) => requests[0]?.state === "left");
  });
});
