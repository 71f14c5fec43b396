import { afterEach, beforeEach, expect, test } from "vitest";
import { AssistantError } from "../../../src/assistant/assistant-error.ts";
import {
  type InferenceHttpHarness,
  SHORT_WAIT,
  startInferenceHttp,
} from "../../support/inference-http-harness.ts";
import { forever, unitVector } from "../../support/scripted-service.ts";

let harness: InferenceHttpHarness;
beforeEach(async () => {
  harness = await startInferenceHttp();
});
afterEach(() => harness[Symbol.asyncDispose]());

const model = "hub/org/embedder:q8";

test("an embeddings response has the documented members, and floats by default", async () => {
  const response = await harness.post("/v1/embeddings", { model, input: "abc" });
  expect(response.headers.get("content-type")).toBe("application/json; charset=utf-8");
  expect(await response.json()).toEqual({
    object: "list",
    model,
    data: [{ object: "embedding", index: 0, embedding: [...unitVector("abc")] }],
    usage: { prompt_tokens: 3, total_tokens: 3 },
  });
});

test("embeddings in base64, the openai client's format, equal the floats bit for bit, in the order of the texts", async () => {
  const input = Array.from({ length: 300 }, (_, index) =>
    String.fromCodePoint(65 + index).repeat(index + 1),
  );
  const base64 = await harness.openai.embeddings.create({ model, input });
  const floats = await harness.openai.embeddings.create({ model, input, encoding_format: "float" });
  const expected = input.map((text) => unitVector(text));
  for (const { data } of [base64, floats]) {
    expect(data.map(({ index }) => index)).toEqual([...input.keys()]);
    const vectors = data.map(({ embedding }) => Float32Array.from(embedding));
    expect(vectors).toEqual(expected);
  }
  const raw = await harness.post("/v1/embeddings", {
    model,
    input: "a",
    encoding_format: "base64",
  });
  const text = /"embedding":"([^"]+)"/.exec(await raw.text())?.[1];
  const bytes = Buffer.from(text ?? "", "base64");
  expect(bytes.readFloatLE(4)).toBe(unitVector("a")[1]);
});

test("a request for fewer dimensions gets shorter vectors, which are normalised to length 1", async () => {
  const whole = unitVector("abc");
  const { data } = await harness.openai.embeddings.create({ model, input: "abc", dimensions: 3 });
  const vector = [...(data[0]?.embedding ?? [])];
  expect(vector).toHaveLength(3);
  expect(Math.hypot(...vector)).toBeCloseTo(1, 6);
  expect((vector[1] ?? 0) / (vector[0] ?? 1)).toBeCloseTo((whole[1] ?? 0) / (whole[0] ?? 1), 5);
});

test.each([model, undefined])(
  "a request for more dimensions than the model has is refused (model %s)",
  async (name) => {
    const response = await harness.post("/v1/embeddings", {
      model: name,
      input: "abc",
      dimensions: 9,
    });
    expect([response.status, await response.json()]).toMatchObject([
      400,
      { error: { param: "dimensions" } },
    ]);
    // If the model's number of dimensions is known, the request is refused before anything is computed.
    expect(harness.service.embeds).toHaveLength(name === undefined ? 1 : 0);
  },
);

test.each<[unknown, string]>([
  [undefined, "input"],
  [42, "input"],
  [{}, "input"],
  [true, "input"],
  ["", "input"],
  [[], "input"],
  [["a", 1], "input[1]"],
  [["a", ""], "input[1]"],
  [["a", null], "input[1]"],
  [[1, 2], "input[0]"],
  [[[1, 2]], "input[0]"],
  [Array.from({ length: 2049 }, () => "a"), "input"],
])("an embeddings request whose input is %j is refused", async (input, param) => {
  const response = await harness.post("/v1/embeddings", { input });
  expect([response.status, await response.json()]).toMatchObject([
    400,
    { error: { type: "invalid_request_error", code: "invalid_request", param } },
  ]);
  expect(harness.service.embeds).toEqual([]);
});

test("wrong and unknown parameters of an embeddings request are refused, and parameters without effect are accepted", async () => {
  const wrong = await harness.post("/v1/embeddings", { input: "a", encoding_format: "hex" });
  expect(await wrong.json()).toMatchObject({ error: { param: "encoding_format" } });
  const cut = await harness.post("/v1/embeddings", { input: "a", truncate: true });
  expect(await cut.json()).toMatchObject({
    error: { code: "unsupported_parameter", param: "truncate" },
  });
  const fine = await harness.post("/v1/embeddings", {
    input: "a",
    user: "ann",
    svc_priority: "background",
    keep_alive: 0,
    odd: 1,
  });
  expect([fine.status, fine.headers.get("x-berth-ignored")]).toEqual([200, "odd"]);
  expect(harness.service.embeds).toEqual([
    {
      model: undefined,
      texts: ["a"],
      priority: "background",
      keepAliveMs: 0,
      asker: { door: "http", uid: undefined },
    },
  ]);
});

test("an embeddings error names the text that caused it, and a ledger error has status 503", async () => {
  harness.service.embedder = () =>
    Promise.reject(new AssistantError("context_length_exceeded", "9 of 8", { param: "texts[3]" }));
  const long = await harness.post("/v1/embeddings", { input: ["a"] });
  expect([long.status, await long.json()]).toMatchObject([400, { error: { param: "input[3]" } }]);
  harness.service.embedder = () => Promise.reject(new AssistantError("ledger_unavailable", "full"));
  const refused = await harness.post("/v1/embeddings", { input: ["a"] });
  expect([refused.status, refused.headers.get("x-should-retry")]).toEqual([503, "false"]);
});

test("the computation of embeddings ends when the client disconnects", async () => {
  let ended = 0;
  harness.service.embedder = (_request, signal) => forever(signal).finally(() => (ended += 1));
  const leaving = new AbortController();
  const call = harness.openai.embeddings.create({ model, input: "a" }, { signal: leaving.signal });
  await expect.poll(() => harness.service.embeds.length, SHORT_WAIT).toBe(1);
  leaving.abort();
  await expect(call).rejects.toThrow("aborted");
  await expect.poll(() => ended, SHORT_WAIT).toBe(1);
});
