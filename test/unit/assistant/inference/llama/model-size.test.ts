import { expect, test } from "vitest";
import type { ModelFacts } from "../../../../../src/assistant/inference/inference-engine.ts";
import { chooseSize } from "../../../../../src/assistant/inference/llama/model-size.ts";
import { computeMemoryNeed } from "../../../../../src/assistant/inference/models/memory-need.ts";

const embedder: ModelFacts = {
  architecture: "bert",
  name: undefined,
  parameters: undefined,
  quantization: undefined,
  fileBytes: 1,
  trainedContextTokens: 512,
  embeddingLength: 384,
  kind: "embedding",
  chatTemplate: undefined,
  memoryBytes: ({ contextTokens, sequences }) => contextTokens * sequences,
};
const requested = { id: "e", contextTokens: 4096, sequences: undefined, memoryBytesMax: 1e9 };

test("a requested context is an upper bound: a model that was trained with less gets the context of its training", () => {
  expect(chooseSize(embedder, requested, 2)).toEqual({
    contextTokens: 512,
    sequences: 2,
    memoryBytes: 1024,
  });
  expect(chooseSize(embedder, { ...requested, contextTokens: 256 }, 2)).toMatchObject({
    contextTokens: 256,
  });
});

test("the memory need of a model is that of the context it gets", () => {
  const settings = { contextTokens: 4096, sequences: undefined };
  expect(computeMemoryNeed(embedder, { ...emptyModel, ...settings })).toEqual({
    wanted: 512,
    least: 512,
  });
});

const emptyModel = {
  id: "e",
  path: "",
  aliases: [],
  modifiedMs: 0,
  sizeBytes: undefined,
  isPinned: true,
  memoryBytesMax: undefined,
  chatTemplate: undefined,
  isDeterministic: false,
  wanted: {
    contextTokens: undefined,
    sequences: undefined,
    isDeterministic: undefined,
    chatTemplate: undefined,
  },
};
