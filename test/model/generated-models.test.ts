import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { getLlama, type Llama, type LlamaModel, type Token } from "node-llama-cpp";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { modelDamages, writeDamagedModel } from "../support/gguf/damaged-model.ts";
import {
  getModelFile,
  type ModelOptions,
  type Preset,
  writePresetModel,
} from "../support/gguf/preset-model.ts";

let llama: Llama;
let scratch: string;

beforeAll(async () => {
  llama = await getLlama({ gpu: false, build: "never", maxThreads: 1, logger: () => {} });
  scratch = await mkdtemp(join(tmpdir(), "berth-gguf-"));
});

// Berth never disposes of the library, because the process of a model exits instead. After several loads that failed,
// `llama.dispose()` never returns on Node.js 22 and newer.
afterAll(async () => {
  await rm(scratch, { recursive: true, force: true });
});

const presets: readonly Preset[] = ["tiny", "small", "wide-context", "big-q8"];

describe.each(presets)("the model %s", (preset) => {
  test("encodes any text to tokens and decodes it unchanged", async () => {
    const model = await load(preset);
    const texts = [
      "Hello there, the water was warm.",
      "  two  spaces, a tab\tand\n\na line ",
      "wörld 日本 🙂 👩‍👩‍👧 \u{10ffff} \ufeff \u0007",
      '{"a": [1, 2.5e-3, null]}',
      "<|im_start|> </s> <0x41> <tool_call>",
    ];
    for (const text of texts) expect(model.detokenize(model.tokenize(text))).toBe(text);
  });

  test("parses control tokens in a text only if the caller requests it", async () => {
    const model = await load(preset);
    const marked = "<|im_start|>user\nhi<|im_end|></s>";
    expect(controls(model, model.tokenize(marked, true))).toBe(3);
    expect(controls(model, model.tokenize(marked, false))).toBe(0);
  });

  test("generates text that depends on the seed and repeats for the same seed", async () => {
    const model = await load(preset);
    const first = await answer(model, 1);
    expect(await answer(model, 1)).toEqual(first);
    expect(await answer(model, 2)).not.toEqual(first);
    expect(new Set(first).size).toBeGreaterThan(5);
    // The generated text must contain words, although half of the vocabulary is byte and control tokens.
    expect(model.detokenize(first).replaceAll(/[^\p{L} ]/gu, "").length).toBeGreaterThan(20);
  });
});

test("answers of the tiny model end even without a token limit", async () => {
  const model = await load("tiny", { endsAfter: 20 });
  const ends = await Promise.all(
    [1, 2, 3].map(async (seed) => (await answer(model, seed, 400)).length),
  );
  expect(Math.min(...ends)).toBeLessThan(400);
});

test("texts that share words have similar vectors", async () => {
  const model = await load("embedding");
  const context = await model.createEmbeddingContext({ threads: 1 });
  onTestFinished(() => context.dispose());
  const texts = ["the dog sleeps in the house", "a dog sleeping in the big house", "query 42"];
  const vectors: (readonly number[])[] = [];
  for (const text of texts) vectors.push((await context.getEmbeddingFor(text)).vector);
  const [first = [], near = [], far = []] = vectors;
  expect(first).toHaveLength(64);
  expect(cosine(first, near)).toBeGreaterThan(cosine(first, far) + 0.2);
});

test("equal generator options give equal model files, and different options give different files", async () => {
  const path = await getModelFile("tiny");
  expect(await getModelFile("tiny")).toBe(path);
  const again = join(scratch, "again.gguf");
  await writePresetModel(again, "tiny");
  expect(await readFile(again)).toEqual(await readFile(path));
  expect(await getModelFile("tiny", { seed: 2 })).not.toBe(path);
  expect((await readdir(dirname(path))).filter((name) => name.endsWith(".part"))).toEqual([]);
});

describe("damaged model files", () => {
  test.each(modelDamages.filter((damage) => damage !== "nan-weights"))(
    "%s does not load",
    async (damage) => {
      const path = join(scratch, `${damage}.gguf`);
      await writeDamagedModel(path, damage);
      await expect(llama.loadModel({ modelPath: path })).rejects.toBeInstanceOf(Error);
    },
  );

  test("nan-weights loads, although all its logits are NaN", async () => {
    const path = join(scratch, "nan.gguf");
    await writeDamagedModel(path, "nan-weights");
    const model = await open(path);
    expect(model.fileInfo.tensorInfo?.length).toBeGreaterThan(5);
  });
});

async function load(preset: Preset, options: ModelOptions = {}): Promise<LlamaModel> {
  return open(await getModelFile(preset, options));
}

/** Opens the model, and disposes it after the test: resources are disposed in the reverse order of their creation. */
async function open(modelPath: string): Promise<LlamaModel> {
  const model = await llama.loadModel({ modelPath });
  onTestFinished(() => model.dispose());
  return model;
}

function controls(model: LlamaModel, tokens: readonly Token[]): number {
  return tokens.filter((token) => model.getTokenAttributes(token).control).length;
}

async function answer(model: LlamaModel, seed: number, tokensMax = 40): Promise<Token[]> {
  const context = await model.createContext({ contextSize: 512, threads: 1 });
  onTestFinished(() => context.dispose());
  const prompt = model.tokenize(
    "<s><|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n",
    true,
  );
  const tokens: Token[] = [];
  for await (const token of context
    .getSequence()
    .evaluate(prompt, { temperature: 1, seed, topK: 0 })) {
    tokens.push(token);
    if (tokens.length === tokensMax) break;
  }
  return tokens;
}

function cosine(left: readonly number[], right: readonly number[]): number {
  let product = 0;
  let ofLeft = 0;
  let ofRight = 0;
  for (const [index, value] of left.entries()) {
    const other = right[index] ?? 0;
    product += value * other;
    ofLeft += value * value;
    ofRight += other * other;
  }
  return product / Math.sqrt(ofLeft * ofRight);
}
