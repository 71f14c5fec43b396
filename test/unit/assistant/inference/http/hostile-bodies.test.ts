import fc from "fast-check";
import { Registry } from "prom-client";
import { afterAll, beforeEach, expect, test } from "vitest";
import { buildInferenceServer } from "../../../../../src/assistant/inference/http/inference-server.ts";
import { systemClock } from "../../../../../src/base/clock.ts";
import { silentLogger } from "../../../../../src/base/logger.ts";
import { ScriptedService } from "../../../../support/scripted-service.ts";

const service = new ScriptedService();
const server = buildInferenceServer({
  service,
  clock: systemClock,
  logger: silentLogger,
  metrics: new Registry(),
  version: "0",
});
beforeEach(() => {
  service.requests.length = 0;
});
afterAll(() => server.close());

/** Valid request bodies that contain every supported parameter. */
const whole = {
  "/v1/chat/completions": {
    model: "tiny",
    messages: [
      { role: "system", content: "s" },
      { role: "user", content: [{ type: "text", text: "a" }] },
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "c", type: "function", function: { name: "t", arguments: "{}" } }],
      },
      { role: "tool", tool_call_id: "c", content: "1" },
    ],
    temperature: 1,
    n: 2,
    seed: 5,
    stop: [],
    max_tokens: 5,
    logprobs: true,
    top_logprobs: 2,
    logit_bias: { "1": 2 },
    stream_options: { include_usage: true },
    response_format: {
      type: "json_schema",
      json_schema: { name: "n", schema: { type: "object" } },
    },
    tools: [{ type: "function", function: { name: "t", parameters: { type: "object" } } }],
    tool_choice: { type: "function", function: { name: "t" } },
    keep_alive: "5m",
    chat_template_kwargs: { a: 1 },
  },
  "/v1/completions": { prompt: ["a", [1, 2]], n: 2, logprobs: 2, stop: "x", best_of: 2 },
  "/v1/embeddings": { input: ["a", "b"], dimensions: 4, encoding_format: "base64" },
} as const;

/** Returns the path of every member of a value. */
function placesIn(value: unknown, at: readonly string[] = []): (readonly string[])[] {
  if (typeof value !== "object" || value === null) return [at];
  const inner = Object.entries(value).flatMap(([key, child]) => placesIn(child, [...at, key]));
  return at.length === 0 ? inner : [at, ...inner];
}

/** Returns a copy of `value` in which `other` replaces the value at the path. */
function replaced(value: unknown, [key, ...rest]: readonly string[], other: unknown): unknown {
  if (key === undefined) return other;
  if (Array.isArray(value)) {
    return value.map((item: unknown, at) =>
      String(at) === key ? replaced(item, rest, other) : item,
    );
  }
  const entries = Object.entries(typeof value === "object" && value !== null ? value : {});
  return Object.fromEntries(
    entries.map(([name, child]) => [name, name === key ? replaced(child, rest, other) : child]),
  );
}

test.each(Object.entries(whole))(
  "the route %s accepts a complete body, and answers 200 or 400 if any value in the body is replaced",
  async (url, body) => {
    const post = async (payload: object) => {
      const answer = await server.inject({ method: "POST", url, payload });
      return { status: answer.statusCode, body: answer.json<{ error?: unknown }>() };
    };
    expect((await post(body)).status).toBe(200);
    const places = placesIn(body);
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...places),
        fc.jsonValue({ maxDepth: 3 }),
        async (place, other) => {
          const wrong = replaced(body, place, other);
          if (typeof wrong !== "object" || wrong === null || hasPrototypeKey(wrong)) return;
          const answer = await post(wrong);
          expect([200, 400]).toContain(answer.status);
          if (answer.status === 200) return;
          const error = {
            message: expect.stringMatching(/^.{5,400}$/s),
            type: "invalid_request_error",
            param: expect.stringMatching(/^[a-z_]/),
            code: expect.stringMatching(/^(invalid_request|unsupported_parameter)$/),
          };
          expect(answer.body).toEqual({ error });
        },
      ),
      { numRuns: 250 },
    );
  },
);

function hasPrototypeKey(value: object): boolean {
  return JSON.stringify(value).includes('"__proto__"');
}

test("a body with a hundred thousand parameters is refused before they are looked at", async () => {
  const unknown = Object.fromEntries(Array.from({ length: 90_000 }, (_, at) => [`p${at}`, 1]));
  const answer = await server.inject({
    method: "POST",
    url: "/v1/embeddings",
    headers: { host: "localhost", "content-type": "application/json" },
    payload: JSON.stringify({ input: "a", ...unknown }),
  });
  expect(answer.statusCode).toBe(400);
  expect(answer.json()).toMatchObject({
    error: { message: "the body may have at most 1024 members" },
  });
  expect(service.requests).toEqual([]);
});
