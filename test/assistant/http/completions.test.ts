import { afterEach, beforeEach, expect, test } from "vitest";
import {
  type InferenceHttpHarness,
  readDataLines,
  startInferenceHttp,
} from "../../support/inference-http-harness.ts";
import { says, textOfPrompt } from "../../support/scripted-service.ts";

let harness: InferenceHttpHarness;
beforeEach(async () => {
  harness = await startInferenceHttp();
});
afterEach(() => harness[Symbol.asyncDispose]());

test("the completions route completes one text", async () => {
  const answer = await harness.openai.completions.create({
    model: "tiny",
    prompt: "Once",
    max_tokens: 9,
  });
  expect(answer).toMatchObject({
    id: expect.stringMatching(/^cmpl-/),
    object: "text_completion",
    model: "tiny",
    choices: [{ text: "Hello there", index: 0, logprobs: null, finish_reason: "stop" }],
    usage: { prompt_tokens: 5, completion_tokens: 3, total_tokens: 8 },
  });
  expect(harness.service.requests[0]).toMatchObject({
    prompts: [{ kind: "text", text: "Once" }],
    maxTokens: 9,
    toolChoice: { kind: "none" },
  });
});

test("the completions route returns the choices of several prompts in the order of the prompts", async () => {
  harness.service.script = (request) =>
    says(
      request,
      request.prompts.map((p) => textOfPrompt(p)),
    );
  const answer = await harness.openai.completions.create({
    model: "tiny",
    prompt: ["a", "b"],
    n: 2,
    best_of: 2,
    echo: true,
  });
  expect(answer.choices.map(({ index, text }) => [index, text])).toEqual([
    [0, "aab"],
    [1, "aab"],
    [2, "bab"],
    [3, "bab"],
  ]);
  expect(answer.usage?.prompt_tokens).toBe(10);
});

test("the completions route accepts token ids as prompts", async () => {
  for (const prompt of [
    [1, 2, 3],
    [[1, 2], [3]],
  ]) {
    await harness.openai.completions.create({ model: "tiny", prompt });
  }
  expect(harness.service.requests.map(({ prompts }) => prompts)).toEqual([
    [{ kind: "tokens", tokens: [1, 2, 3] }],
    [
      { kind: "tokens", tokens: [1, 2] },
      { kind: "tokens", tokens: [3] },
    ],
  ]);
});

test("a streamed completion consists of the text, the finish reason, the usage and [DONE]", async () => {
  const stream = await harness.openai.completions.create({
    model: "tiny",
    prompt: "Once",
    echo: true,
    stream: true,
    stream_options: { include_usage: true },
  });
  const seen: unknown[] = [];
  for await (const { object, choices, usage } of stream) {
    seen.push([object, choices[0]?.text, choices[0]?.finish_reason, usage?.total_tokens]);
  }
  expect(seen).toEqual(
    [
      ["Once", null, undefined],
      ["Hello", null, undefined],
      [" ", null, undefined],
      ["there", null, undefined],
      ["", "stop", undefined],
      [undefined, undefined, 8],
    ].map((row) => ["text_completion", ...row]),
  );
  const raw = await harness.post("/v1/completions", { prompt: "x", stream: true });
  expect(readDataLines(await raw.text()).at(-1)).toBe("[DONE]");
});

test("the logprobs of a completion have the offset of each token, streamed or not", async () => {
  const options = { model: "tiny", prompt: "x", logprobs: 1 };
  const logprobs = {
    tokens: ["Hello", " ", "there"],
    token_logprobs: [-0.5, -0.5, -0.5],
    top_logprobs: [{ Hello: -0.5 }, { " ": -0.5 }, { there: -0.5 }],
    text_offset: [0, 5, 6],
  };
  const whole = await harness.openai.completions.create(options);
  expect(whole.choices[0]?.logprobs).toEqual(logprobs);
  const offsets: unknown[] = [];
  for await (const { choices } of await harness.openai.completions.create({
    ...options,
    stream: true,
  })) {
    offsets.push(...(choices[0]?.logprobs?.text_offset ?? []));
  }
  expect(offsets).toEqual(logprobs.text_offset);
});

test.each<[object, string, string]>([
  [{ prompt: undefined }, "prompt", "invalid_request"],
  [{ prompt: {} }, "prompt", "invalid_request"],
  [{ prompt: [] }, "prompt", "invalid_request"],
  [{ prompt: ["a", 1] }, "prompt[1]", "invalid_request"],
  [{ prompt: [1, "a"] }, "prompt[1]", "invalid_request"],
  [{ prompt: [[1, -1]] }, "prompt[0][1]", "invalid_request"],
  [{ prompt: Array.from({ length: 60 }, () => "a"), n: 2 }, "n", "invalid_request"],
  [{ suffix: "end" }, "suffix", "unsupported_parameter"],
  [{ best_of: 3 }, "best_of", "unsupported_parameter"],
  [{ n: 1, best_of: 0 }, "best_of", "unsupported_parameter"],
  [{ echo: true, prompt: [1] }, "echo", "unsupported_parameter"],
  [{ echo: true, logprobs: 1 }, "echo", "unsupported_parameter"],
  [{ logprobs: true }, "logprobs", "invalid_request"],
  [{ messages: [] }, "messages", "unsupported_parameter"],
  [{ tools: [{}] }, "tools", "unsupported_parameter"],
])(
  "a completion request whose body contains %j is refused, and the error names the wrong parameter",
  async (body, param, code) => {
    const response = await harness.post("/v1/completions", { prompt: "x", ...body });
    expect([response.status, await response.json()]).toMatchObject([
      400,
      { error: { param, code } },
    ]);
  },
);
