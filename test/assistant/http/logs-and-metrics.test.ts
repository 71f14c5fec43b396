import { afterEach, beforeEach, expect, test } from "vitest";
import {
  type InferenceHttpHarness,
  SHORT_WAIT,
  startInferenceHttp,
} from "../../support/inference-http-harness.ts";
import { createRecordingLogger, type LogEntry } from "../../support/recording-logger.ts";
import { accepted } from "../../support/scripted-service.ts";

let harness: InferenceHttpHarness;
let lines: LogEntry[];
beforeEach(async () => {
  lines = [];
  harness = await startInferenceHttp({ logger: createRecordingLogger(lines) });
});
afterEach(() => harness[Symbol.asyncDispose]());

const body = { messages: [{ role: "user", content: "my secret" }], user: "ann" };

test("the health response has status, engine and version, and is degraded while the ledger fails or the system instance is away", async () => {
  const health = async () => (await fetch(`${harness.url}/health`)).json();
  expect(await health()).toEqual({
    status: "ok",
    engine: "scripted",
    version: "1.2.3",
    ledger: "ok",
  });
  harness.service.healthAnswer = { engine: "stub", ledgerOk: false };
  expect(await health()).toMatchObject({
    status: "degraded",
    engine: "stub",
    ledger: "unavailable",
  });
  harness.service.healthAnswer = { engine: "stub", ledgerOk: true, upstream: "unreachable" };
  expect(await health()).toEqual({
    status: "degraded",
    engine: "stub",
    version: "1.2.3",
    ledger: "ok",
    upstream: "unreachable",
  });
});

test("only a failed model is listed with an error", async () => {
  const [model] = harness.service.known;
  if (model)
    harness.service.known = [{ ...model, state: "failed", failure: "it is cut off" }, model];
  const list: unknown = await (await fetch(`${harness.url}/v1/models`)).json();
  expect(list).toMatchObject({ data: [{ state: "failed", error: "it is cut off" }, {}] });
  expect(JSON.stringify(list).match(/"error"/g)).toHaveLength(1);
});

test("models are listed as documented, and found by id and alias, even with slashes", async () => {
  const list = await harness.openai.models.list();
  expect(list.object).toBe("list");
  expect(list.data).toMatchObject([
    { id: "tiny", object: "model", created: 1_700_000_000, owned_by: "berth", state: "resident" },
    { id: "hub/org/embedder:q8", object: "model", created: 1_700_000_001, owned_by: "berth" },
  ]);
  for (const name of ["hub/org/embedder:q8", "tiny", "default"]) {
    // The openai client escapes the slashes in the id; other clients do not.
    const model = await harness.openai.models.retrieve(name);
    const plain = await (await fetch(`${harness.url}/v1/models/${name}`)).json();
    expect(plain).toEqual(model);
    expect(model.id).toBe(name === "default" ? "tiny" : name);
  }
  await expect(harness.openai.models.retrieve("gpt-5")).rejects.toMatchObject({
    status: 404,
    code: "model_not_found",
    param: "model",
    type: "invalid_request_error",
  });
});

test("metrics count requests by route and status, tokens by model, and errors of streams", async () => {
  await (await harness.post("/v1/chat/completions", body)).text();
  await (await harness.post("/v1/chat/completions", { ...body, stream: true })).text();
  await (await harness.post("/v1/chat/completions", {})).text();
  await (await fetch(`${harness.url}/v1/models/some/id`)).text();
  harness.service.script = function* () {
    yield accepted;
    yield { type: "text", choice: 0, text: "a" };
    throw new Error("broken");
  };
  await (await harness.post("/v1/chat/completions", { ...body, stream: true })).text();
  const response = await fetch(`${harness.url}/metrics`);
  expect(response.headers.get("content-type")).toContain("text/plain");
  const text = await response.text();
  const chat = 'method="POST",route="/v1/chat/completions"';
  for (const line of [
    `berth_inference_requests_total{${chat},status="200"} 3`,
    `berth_inference_requests_total{${chat},status="400"} 1`,
    'berth_inference_requests_total{method="GET",route="/v1/models/*",status="404"} 1',
    'berth_inference_tokens_total{model="tiny",kind="prompt"} 10',
    'berth_inference_tokens_total{model="tiny",kind="cached"} 4',
    'berth_inference_tokens_total{model="tiny",kind="completion"} 6',
    'berth_inference_errors_total{code="internal"} 1',
    'berth_inference_errors_total{code="model_not_found"} 1',
    'berth_inference_time_to_first_token_seconds_count{model="tiny"} 3',
    "berth_inference_requests_underway 1",
  ]) {
    expect(text).toContain(`${line}\n`);
  }
});

test("the log has every request without its prompt, and unexpected errors at level error", async () => {
  await (await harness.post("/v1/chat/completions", { ...body, odd: 1 })).text();
  await expect
    .poll(() => lines.filter(({ level }) => level === "info"), SHORT_WAIT)
    .toHaveLength(1);
  expect(lines).toMatchObject([
    { level: "debug", fields: { ignored: "odd" } },
    {
      level: "info",
      message: "request finished",
      fields: {
        method: "POST",
        route: "/v1/chat/completions",
        status: "200",
        model: "tiny",
        ledgerSeq: 7,
        promptTokens: 5,
        completionTokens: 3,
      },
    },
  ]);
  harness.service.script = () => {
    throw new TypeError("x is not a function");
  };
  const response = await harness.post("/v1/chat/completions", body);
  expect([response.status, await response.json()]).toMatchObject([
    500,
    { error: { code: "internal" } },
  ]);
  expect(lines.filter(({ level }) => level === "error")).toMatchObject([
    { fields: { err: { message: "x is not a function" }, requestId: expect.any(String) } },
  ]);
  expect(JSON.stringify(lines)).not.toContain("secret");
});
