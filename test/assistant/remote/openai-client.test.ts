import OpenAI from "openai";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { AssistantError, type AssistantErrorCode } from "../../../src/assistant/errors.ts";
import { type InferenceHttpWorld, inferenceHttp, soon } from "../../support/inference-http.ts";
import { accepted, forever, ScriptedService } from "../../support/scripted-service.ts";

const model = "remote:there:org/model";
const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: "hi" }];

describe("what a provider refuses", () => {
  let remote: ScriptedService;
  let world: InferenceHttpWorld;
  beforeEach(async () => {
    remote = new ScriptedService();
    world = await inferenceHttp({ remote });
  });
  afterEach(() => world[Symbol.asyncDispose]());

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

  describe.each(classes)("%s", (code, type, status, family, retry) => {
    const error = () =>
      new AssistantError(
        code,
        `it is ${code}`,
        code === "rate_limited" ? { retryAfterSeconds: 7 } : {},
      );

    test("is the client's own class, before anything of an answer", async () => {
      remote.script = async function* () {
        yield* [];
        throw error();
      };
      remote.embedder = () => Promise.reject(error());
      const asks = [
        world.openai.chat.completions.create({ model, messages }),
        world.openai.chat.completions.create({ model, messages, stream: true }),
        world.openai.completions.create({ model, prompt: "hi" }),
        world.openai.embeddings.create({ model, input: "hi" }),
      ];
      for (const ask of asks) {
        const thrown: unknown = await ask.catch((reason: unknown) => reason);
        expect(thrown).toBeInstanceOf(type);
        if (!(thrown instanceof OpenAI.APIError)) throw new Error("it is another error");
        expect(thrown).toMatchObject({ status, code, type: family });
        expect(thrown.message).toBe(`${status} it is ${code}`);
        expect(thrown.headers?.get("retry-after")).toBe(code === "rate_limited" ? "7" : null);
        expect(thrown.headers?.get("x-should-retry")).toBe(retry);
      }
    });

    test("ends a stream that has begun, as an error with its code", async () => {
      remote.script = async function* () {
        yield { ...accepted, model };
        yield { type: "text", choice: 0, text: "so far" };
        throw error();
      };
      const create = { model, messages, stream: true } as const;
      const stream = await world.openai.chat.completions.create(create);
      let text = "";
      const thrown: unknown = await (async () => {
        for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
      })().catch((reason: unknown) => reason);
      expect(text).toBe("so far");
      expect(thrown).toBeInstanceOf(OpenAI.APIError);
      expect(thrown).toMatchObject({ code, type: family, message: `it is ${code}` });
    });
  });

  test("is asked for again by itself only where that may help", async () => {
    const client = new OpenAI({ baseURL: `${world.url}/v1`, apiKey: "any", maxRetries: 1 });
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
      await client.chat.completions.create({ model, messages }).catch(() => {});
      asked[code] = remote.requests.length;
    }
    expect(asked).toEqual({
      consent_required: 1,
      unauthorized: 1,
      bad_response: 1,
      unreachable: 2,
    });
  });

  test("frees the request when the client leaves in mid-stream", async () => {
    remote.script = async function* (_, signal) {
      yield { ...accepted, model };
      yield { type: "text", choice: 0, text: "so far" };
      await forever(signal);
    };
    const create = { model, messages, stream: true } as const;
    const stream = await world.openai.chat.completions.create(create);
    for await (const chunk of stream) {
      if (chunk.choices[0]?.delta.content) stream.controller.abort();
    }
    await expect.poll(() => [remote.aborted, remote.running], soon).toEqual([1, 0]);
  });
});
