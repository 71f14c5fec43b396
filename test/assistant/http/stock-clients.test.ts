import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { AssistantError } from "../../../src/assistant/assistant-error.ts";
import {
  type InferenceHttpHarness,
  startInferenceHttp,
} from "../../support/inference-http-harness.ts";

let harness: InferenceHttpHarness;
beforeEach(async () => {
  harness = await startInferenceHttp();
});
afterEach(() => harness[Symbol.asyncDispose]());

const path = "/v1/chat/completions";

/** The exact request body that version 1.5 of @langchain/openai sends for a turn with a tool's result. */
const langchainTurn =
  '{"model":"tiny","stream":false,"tools":[{"type":"function","function":{"name":"weather",' +
  '"description":"w","parameters":{"$schema":"https://json-schema.org/draft/2020-12/schema",' +
  '"type":"object","properties":{"city":{"type":"string","maxLength":8}},"required":["city"],' +
  '"additionalProperties":false}}}],"max_tokens":300,"messages":[{"role":"user","content":"w"},' +
  '{"role":"assistant","content":"","tool_calls":[{"id":"call_f1","type":"function","function":' +
  '{"name":"weather","arguments":"{\\"city\\":\\"Bern\\"}"}}]},{"role":"tool","content":"20 in Bern",' +
  '"name":"weather","tool_call_id":"call_f1"}]}';

/** The exact request body that version 0.20 of the Agents SDK sends. */
const agentsTurn =
  '{"model":"tiny","messages":[{"content":"i","role":"system"},{"role":"user","content":"hi"},' +
  '{"role":"assistant","content":null,"tool_calls":[{"id":"call_d3","type":"function","function":' +
  '{"name":"weather","arguments":"{ \\"city\\": \\"Bern\\" }"}}]},{"role":"tool","tool_call_id":' +
  '"call_d3","content":"20"}],"tools":[{"type":"function","function":{"name":"weather",' +
  '"description":"w","parameters":{"$schema":"http://json-schema.org/draft-07/schema#","type":' +
  '"object","properties":{"city":{"type":"string","maxLength":6}},"required":["city"],' +
  '"additionalProperties":false},"strict":true}}],"max_tokens":120,"parallel_tool_calls":false,' +
  '"stream":false}';

test.each([
  ["LangChain", langchainTurn, "20 in Bern"],
  ["the Agents SDK", agentsTurn, "20"],
])(
  "a request that contains a tool's result is accepted in the form that %s sends",
  async (_, body, content) => {
    const response = await harness.post(path, body);
    expect([response.status, response.headers.get("x-berth-ignored")]).toEqual([200, null]);
    const [prompt] = harness.service.requests[0]?.prompts ?? [];
    const messages = prompt?.kind === "chat" ? prompt.messages : [];
    expect(messages.at(-1)).toMatchObject({ role: "tool", content });
    expect(messages.at(-2)?.toolCalls).toMatchObject([{ name: "weather" }]);
  },
);

describe("a schema at response_format.schema", () => {
  const schema = {
    type: "object",
    properties: { name: { type: "string" } },
    required: ["name"],
    additionalProperties: false,
  };

  /**
   * Clients send the schema in `response_format.schema` with either type: Instructor's mode JSON_SCHEMA and
   * llama-server's examples with `json_object`, and clients of Together with `json_schema`.
   */
  test.each(["json_object", "json_schema"])("is enforced with type %s", async (type) => {
    const body = {
      model: "tiny",
      messages: [{ role: "user", content: "x" }],
      max_tokens: 300,
      stream: false,
      response_format: { type, schema },
    };
    expect((await harness.post(path, body)).status).toBe(200);
    expect(harness.service.requests[0]?.guide).toMatchObject({ kind: "json_schema", schema });
  });

  test("is named in the error if it is invalid", async () => {
    // oxlint-disable-next-line require-yield
    harness.service.script = function* () {
      throw new AssistantError("unsupported_schema", "no", { param: "guide.schema" });
    };
    const body = {
      messages: [{ role: "user", content: "x" }],
      response_format: { type: "json_object", schema },
    };
    const response = await harness.post(path, body);
    expect(await response.json()).toMatchObject({ error: { param: "response_format.schema" } });
  });
});

describe("the role of a streamed answer", () => {
  const tools = [{ type: "function", function: { name: "f", parameters: { type: "object" } } }];

  /**
   * The AI SDK reports the start of a text for any content except null, so the content is null if the answer must be a
   * tool call.
   */
  test.each([
    [{ tools, tool_choice: "required" }, null],
    [{ tools, tool_choice: { type: "function", function: { name: "f" } } }, null],
    [{ tools }, ""],
    [{}, ""],
  ])(
    "is sent in the first chunk; for a request with %j the content of that chunk is %j",
    async (more, content) => {
      const body = { messages: [{ role: "user", content: "x" }], stream: true, ...more };
      const text = await (await harness.post(path, body)).text();
      const [first] = text.split("\n\n");
      const chunk: unknown = JSON.parse(first?.replace("data: ", "") ?? "");
      expect(chunk).toMatchObject({ choices: [{ delta: { role: "assistant", content } }] });
    },
  );
});
