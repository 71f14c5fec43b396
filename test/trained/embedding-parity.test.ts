import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import type { AssistantProcess } from "../support/assistant-process.ts";
import { embeddedTexts } from "../support/trained-models/questions.ts";
import {
  type RecordedEmbedding,
  type Recording,
  readRecording,
} from "../support/trained-models/recorded-answers.ts";
import { startAssistantWith } from "../support/trained-models/trained-assistant.ts";

const COSINE_MIN = 0.99999;

let assistant: AssistantProcess;
let recording: Recording<RecordedEmbedding>;

beforeAll(async () => {
  recording = await readRecording("minilm");
  assistant = await startAssistantWith("minilm", inject("trainedModels").minilm);
});
afterAll(() => assistant[Symbol.asyncDispose]());

function embed(input: string | string[]) {
  return assistant.openai.embeddings.create({ model: "minilm", input });
}

function cosine(left: readonly number[], right: Float32Array): number {
  const product = left.reduce((sum, value, index) => sum + value * (right[index] ?? 0), 0);
  return product / (Math.hypot(...left) * Math.hypot(...right));
}

function toVector(base64: string): Float32Array {
  const bytes = Buffer.from(base64, "base64");
  return Float32Array.from({ length: bytes.length / 4 }, (_, index) =>
    bytes.readFloatLE(index * 4),
  );
}

describe("MiniLM", () => {
  test("embeds every text as llama-server does, alone and in one request with others", async () => {
    expect(recording.answers.map(({ text }) => text)).toEqual(embeddedTexts);
    const together = await embed([...embeddedTexts]);
    expect(together.usage.prompt_tokens).toBe(
      recording.answers.reduce((sum, { tokens }) => sum + tokens, 0),
    );
    for (const [index, { text, tokens, vector }] of recording.answers.entries()) {
      const alone = await embed(text);
      expect([text, alone.usage.prompt_tokens]).toEqual([text, tokens]);
      for (const { embedding } of [alone.data[0], together.data[index]].filter(
        (one) => one !== undefined,
      ))
        expect([text, cosine(embedding, toVector(vector))]).toEqual([
          text,
          expect.toSatisfy((value: number) => value >= COSINE_MIN && value <= 1 + 1e-6),
        ]);
    }
  });

  test("gives sentences of the same meaning more similar vectors than other sentences", async () => {
    const { data } = await embed([
      "How do I reset my password?",
      "I forgot my login and cannot sign in.",
      "Stock markets fell sharply on Tuesday.",
    ]);
    const [first = [], near = [], far = []] = data.map(({ embedding }) => embedding);
    expect(cosine(first, Float32Array.from(near))).toBeGreaterThan(
      cosine(first, Float32Array.from(far)) + 0.3,
    );
  });
});
