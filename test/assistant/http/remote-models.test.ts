import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { AssistantError } from "../../../src/assistant/assistant-error.ts";
import {
  type InferenceHttpHarness,
  RawClient,
  rawPost,
  readDataLines,
  startInferenceHttp,
} from "../../support/inference-http-harness.ts";
import { accepted, Gate, ScriptedService } from "../../support/scripted-service.ts";

const remoteModel = "remote:there:org/model:free";
const chain = new Map([
  ["both", ["tiny", remoteModel]],
  ["here", ["tiny"]],
]);

let remote: ScriptedService;
let harness: InferenceHttpHarness;
beforeEach(async () => {
  remote = new ScriptedService();
  remote.known = [];
  harness = await startInferenceHttp({ remote, aliases: chain });
});
afterEach(() => harness[Symbol.asyncDispose]());

const chat = { messages: [{ role: "user", content: "hi" }] };
const routes = [
  ["/v1/chat/completions", chat],
  ["/v1/completions", { prompt: "hi" }],
  ["/v1/embeddings", { input: "hi" }],
] as const;

/** Returns the last request that the remote provider received; if there is none, the last one of the local service. */
function asked(): {
  readonly isRemote: boolean;
  readonly egress: unknown;
  readonly further: unknown;
} {
  const ofRemote = [...remote.requests, ...remote.embeds].at(-1);
  const request = ofRemote ?? [...harness.service.requests, ...harness.service.embeds].at(-1);
  return {
    isRemote: ofRemote !== undefined,
    egress: request?.egress,
    further: request?.passthrough,
  };
}

const stray = { user: "ann", store: true, metadata: { a: "b" }, colour: "red", mirostat: 0 };
const sent = { user: "ann", store: true, metadata: { a: "b" }, colour: "red" };

describe.each(routes)("the route %s", (path, body) => {
  test("sends parameters that Berth does not know to the provider of a remote model", async () => {
    const response = await harness.post(path, { ...body, ...stray, model: remoteModel });
    expect([response.status, response.headers.get("x-berth-ignored")]).toEqual([200, null]);
    expect(asked()).toEqual({ isRemote: true, egress: undefined, further: sent });
  });

  test("sends parameters that Berth does not know to the provider if at least one model of the requested alias is remote", async () => {
    const response = await harness.post(path, { ...body, ...stray, model: "both" });
    expect([response.status, response.headers.get("x-berth-ignored")]).toEqual([200, null]);
    expect(asked()).toEqual({ isRemote: false, egress: undefined, further: sent });
  });

  test.each([undefined, "tiny", "here"])(
    "ignores a parameter that Berth does not know for the local model %j",
    async (model) => {
      const response = await harness.post(path, { ...body, ...stray, model });
      expect([response.status, response.headers.get("x-berth-ignored")]).toEqual([200, "colour"]);
      expect(asked()).toEqual({ isRemote: false, egress: undefined, further: undefined });
    },
  );

  test("adds the consent scopes of the parameter svc_scopes to `prompt`, the scope of every request", async () => {
    const scopes = ["files", "memory", "files"];
    await harness.post(path, { ...body, model: remoteModel, svc_scopes: scopes });
    expect(asked().egress).toEqual({ classes: ["prompt", "files", "memory"], allowedOnce: [] });
    remote.requests.length = 0;
    remote.embeds.length = 0;
    const local = await harness.post(path, { ...body, svc_scopes: [] });
    expect([local.status, local.headers.get("x-berth-ignored")]).toEqual([200, null]);
    expect(asked()).toMatchObject({ isRemote: false, egress: { classes: ["prompt"] } });
  });

  test.each([
    ["files", "svc_scopes", "has to be an array"],
    [
      ["prompt"],
      "svc_scopes[0]",
      'has to be one of "files", "mail", "calendar", "screen", "memory"',
    ],
    [["files", "secrets"], "svc_scopes[1]", "has to be one of"],
    [[["files"]], "svc_scopes[0]", "has to be one of"],
  ])("refuses a request whose svc_scopes are %j", async (scopes, param, message) => {
    const response = await harness.post(path, { ...body, model: remoteModel, svc_scopes: scopes });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      error: { code: "invalid_request", param, message: expect.stringContaining(message) },
    });
    expect(asked().isRemote).toBe(false);
  });
});

test("unknown members of messages, and stream options without a stream, are reported as ignored", async () => {
  const response = await harness.post("/v1/chat/completions", {
    messages: [{ ...chat.messages[0], mood: 3 }],
    model: remoteModel,
    colour: "red",
    stream_options: { include_usage: true },
  });
  expect(response.headers.get("x-berth-ignored")).toBe("stream_options, messages[].mood");
  expect(asked().further).toEqual({ colour: "red" });
});

test("a parameter called constructor or toString is sent to the provider like any other parameter", async () => {
  const text = `{"messages":[{"role":"user","content":"x"}],"model":"${remoteModel}","constructor":1,"toString":2}`;
  expect((await harness.post("/v1/chat/completions", text)).status).toBe(200);
  expect(Object.entries(asked().further ?? {})).toEqual([
    ["constructor", 1],
    ["toString", 2],
  ]);
});

test.each(["tiny", remoteModel])(
  "an image for the model %s is refused with the message that no model gets images",
  async (model) => {
    const image = { type: "image_url", image_url: { url: "data:image/png;base64,AA==" } };
    const response = await harness.post("/v1/chat/completions", {
      model,
      messages: [{ role: "user", content: [{ type: "text", text: "what is this?" }, image] }],
    });
    expect(response.status).toBe(400);
    expect(await response.json()).toEqual({
      error: {
        message:
          "messages[0].content[1].type is not supported: image_url is not sent to any model, local or remote; send text",
        type: "invalid_request_error",
        param: "messages[0].content[1].type",
        code: "unsupported_parameter",
      },
    });
    expect([...remote.requests, ...harness.service.requests]).toEqual([]);
  },
);

test("local and remote models are listed together, and found by their ids", async () => {
  remote.known = [
    {
      id: remoteModel,
      aliases: [],
      createdSeconds: 3,
      kind: "chat",
      state: "idle",
      contextTokens: undefined,
      embeddingLength: undefined,
    },
  ];
  const { data } = await harness.openai.models.list();
  expect(data.map(({ id, owned_by: owner }) => [id, owner])).toEqual(
    ["tiny", "hub/org/embedder:q8", "both", "here", remoteModel].map((id) => [id, "berth"]),
  );
  for (const { id } of data) expect((await harness.openai.models.retrieve(id)).id).toBe(id);
});

test("a client of a slow remote model receives SSE comments while it waits, and an event if the model fails", async () => {
  await harness[Symbol.asyncDispose]();
  harness = await startInferenceHttp({ remote, limits: { openAfterMs: 20, heartbeatMs: 20 } });
  const gate = new Gate();
  remote.script = async function* () {
    yield { ...accepted, model: remoteModel };
    await gate.opened;
    yield { type: "text", choice: 0, text: "late" };
    throw new AssistantError("rate_limited", "too many", { retryAfterSeconds: 7 });
  };
  using client = new RawClient(harness.port);
  const body = JSON.stringify({ ...chat, model: remoteModel, stream: true });
  client.write(rawPost("/v1/chat/completions", body));
  const early = await client.until((text) => text.split(": waiting").length > 2);
  expect(early).toMatch(/^HTTP\/1\.1 200 /);
  expect(early).not.toContain("late");
  gate.open();
  const all = await client.until((text) => text.includes("rate_limited"));
  const last: unknown = JSON.parse(readDataLines(all).at(-1) ?? "");
  expect(last).toMatchObject({ error: { code: "rate_limited", type: "rate_limit_error" } });
  expect(all).not.toContain("[DONE]");
});
