import { describe, expect, test } from "vitest";
import { AssistantError } from "../../../../../src/assistant/assistant-error.ts";
import {
  encodeBase64,
  formatEmbeddings,
  truncateVector,
} from "../../../../../src/assistant/inference/http/embedding-vectors.ts";
import { renameErrorParam } from "../../../../../src/assistant/inference/http/error-params.ts";
import {
  parseKeepAlive,
  parseStop,
} from "../../../../../src/assistant/inference/http/generation-parameters.ts";
import { KnownPaths } from "../../../../../src/assistant/inference/http/known-paths.ts";

describe("known paths of the inference API", () => {
  const paths = new KnownPaths();
  paths.add(["GET", "HEAD"], "/v1/models");
  paths.add("GET", "/v1/models/*");
  paths.add("POST", "/v1/completions");

  test.each([
    ["/v1/models", ["GET", "HEAD", "OPTIONS"]],
    ["/v1/models/?a=b", ["GET", "HEAD", "OPTIONS"]],
    ["//v1//models", ["GET", "HEAD", "OPTIONS"]],
    ["/v1/models/a/b", ["GET", "OPTIONS"]],
    ["/v1/completions", ["OPTIONS", "POST"]],
    ["*", ["GET", "HEAD", "OPTIONS", "POST"]],
    ["/v1", []],
    ["/", []],
  ])("%s supports the methods %j", (path, methods) => {
    expect(paths.getMethods(path)).toEqual(methods);
  });
});

describe("the parameter that an error names", () => {
  const words = { prompt: "messages", schema: "response_format.json_schema.schema" } as const;

  test.each([
    ["guide.schema", "response_format.json_schema.schema"],
    ["guide", "response_format"],
    ["prompts[0]", "messages"],
    ["prompt", "messages"],
    ["texts[3]", "input[3]"],
    ["maxTokens", "max_tokens"],
    ["sampling.logitBias", "logit_bias"],
    ["sampling.temperature", "temperature"],
    ["tools[1].parameters", "tools[1].function.parameters"],
    ["toolChoice", "tool_choice"],
    ["keepAliveMs", "keep_alive"],
    ["model", "model"],
    ["messages[2].content", "messages[2].content"],
    ["input[7]", "input[7]"],
  ])("is shown to clients under its name in the request: %s is called %s", (param, wire) => {
    const error = new AssistantError("queue_full", "full", { param, retryAfterSeconds: 3 });
    expect(renameErrorParam(error, words)).toMatchObject({
      code: "queue_full",
      message: "full",
      param: wire,
      retryAfterSeconds: 3,
    });
  });

  test("is called `prompt` on a route whose requests have a prompt", () => {
    const error = new AssistantError("context_length_exceeded", "long", { param: "prompts[2]" });
    expect(renameErrorParam(error, { prompt: "prompt" })).toMatchObject({ param: "prompt[2]" });
  });
});

describe("the parameter keep_alive", () => {
  test.each([
    [undefined, undefined],
    [0, 0],
    [1.5, 1500],
    [-1, Number.POSITIVE_INFINITY],
    ["30", 30_000],
    ["250ms", 250],
    ["5m", 300_000],
    ["2h", 7_200_000],
    ["-1m", Number.POSITIVE_INFINITY],
  ])("has the value %j: the model stays loaded for %j ms", (value, ms) => {
    expect(parseKeepAlive(value)).toBe(ms);
  });

  test.each([["5 m"], ["m"], [""], [true], [Number.NaN], [{}], ["1d"]])(
    "the value %j is refused",
    (value) => {
      expect(() => parseKeepAlive(value)).toThrow("keep_alive has to be");
    },
  );
});

test("a request with too many stop texts, or with one that is too long or empty, is refused", () => {
  expect(parseStop(["a", "b"])).toEqual(["a", "b"]);
  expect(() => parseStop("x".repeat(257))).toThrow("stop may have at most 256 characters");
  expect(() => parseStop([1])).toThrow("stop[0] has to be a string, and is a number");
});

test("a shortened vector is scaled to length 1, and a zero vector is not divided", () => {
  expect([...truncateVector(Float32Array.of(0.6, 0, 0.8), 2)]).toEqual([1, 0]);
  expect([...truncateVector(Float32Array.of(0, 0, 1), 2)]).toEqual([0, 0]);
  expect(encodeBase64(Float32Array.of(1, -2))).toBe("AACAPwAAAMA=");
});

test("formatting many vectors yields to other work, and ends when its caller aborts", async () => {
  const vectors = Array.from({ length: 100 }, () => new Float32Array(1_000));
  let turns = 0;
  let turn = setImmediate(function count() {
    turns += 1;
    turn = setImmediate(count);
  });
  const text = await formatEmbeddings(vectors, "float", new AbortController().signal);
  clearImmediate(turn);
  expect(JSON.parse(text)).toHaveLength(100);
  expect(turns).toBeGreaterThanOrEqual(5);
  await expect(formatEmbeddings(vectors, "float", AbortSignal.abort())).rejects.toThrow("aborted");
});
