import { copyFile, mkdtemp, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { AssistantError } from "../../../../../src/assistant/assistant-error.ts";
import { inspectModel } from "../../../../../src/assistant/inference/llama/gguf/inspect-model.ts";
import { modelDamages, writeDamagedModel } from "../../../../support/gguf/damaged-model.ts";
import { getModelFile } from "../../../../support/gguf/preset-model.ts";

let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-inspect-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const never = new AbortController().signal;
const inspect = (path: string) => inspectModel({ id: "acme/tiny", path }, never);

describe("inspecting a model's file", () => {
  it("reads the facts about the model without loading it", async () => {
    const { facts } = await inspect(await getModelFile("tiny"));
    expect(facts).toMatchObject({
      architecture: "llama",
      name: "Tiny Random",
      quantization: "F32",
      trainedContextTokens: 2048,
      embeddingLength: 64,
      kind: "chat",
    });
    expect(facts.chatTemplate).toContain("messages");
    expect(facts.parameters).toBeGreaterThan(50_000);
  });

  it("distinguishes chat models, embedding models and models without a template", async () => {
    expect((await inspect(await getModelFile("embedding"))).facts.kind).toBe("embedding");
    const plain = await getModelFile("tiny", { template: null });
    expect((await inspect(plain)).facts.kind).toBe("completion");
  });

  it("prefers the chat template of the settings, which makes a chat model of a base model", async () => {
    const chatTemplate = "{{ messages[0].content }}";
    const files = [await getModelFile("tiny"), await getModelFile("tiny", { template: null })];
    for (const path of files) {
      const { facts } = await inspectModel({ id: "tiny", path, chatTemplate }, never);
      expect(facts).toMatchObject({ kind: "chat", chatTemplate });
    }
    const path = await getModelFile("embedding");
    const { facts } = await inspectModel({ id: "e", path, chatTemplate }, never);
    expect(facts.kind).toBe("embedding");
  });

  it("returns another digest after the file has changed", async () => {
    const path = join(folder, "changes.gguf");
    await copyFile(await getModelFile("tiny"), path);
    const before = (await inspect(path)).digest;
    expect((await inspect(path)).digest).toBe(before);
    await copyFile(await getModelFile("tiny", { seed: 2 }), path);
    expect((await inspect(path)).digest).not.toBe(before);
  });

  it("estimates more memory for a larger context and for more sequences", async () => {
    const { facts } = await inspect(await getModelFile("wide-context"));
    const one = facts.memoryBytes({ contextTokens: 8192, sequences: 1 });
    const two = facts.memoryBytes({ contextTokens: 8192, sequences: 2 });
    // In one layer, the keys and values of 2 heads with 16 numbers of 2 bytes take 128 bytes per token.
    expect(two - one).toBeGreaterThanOrEqual(8192 * 128);
    expect(facts.memoryBytes({ contextTokens: 131_072, sequences: 8 })).toBeGreaterThan(two);
  });
});

describe("a file that cannot be used as a model", () => {
  const readable = new Set(["nan-weights", "missing-tensor"]);
  it.each(modelDamages.filter((damage) => !readable.has(damage)))(
    "is refused: %s",
    async (damage) => {
      const path = join(folder, `${damage}.gguf`);
      await writeDamagedModel(path, damage);
      const refusal: unknown = await inspect(path).catch((error: unknown) => error);
      if (!(refusal instanceof AssistantError)) throw new Error("it was read");
      expect(refusal.code).toBe("model_unusable");
      expect(refusal.message).toContain("acme/tiny");
      expect(refusal.message).not.toContain(folder);
    },
  );

  it("is refused if its header is truncated at any byte", async () => {
    const whole = await readFile(await getModelFile("tiny"));
    const path = join(folder, "cut.gguf");
    await writeFile(path, whole);
    for (let length = 30_000; length >= 0; length = Math.floor(length * 0.8) - 1) {
      await truncate(path, length);
      await expect(inspect(path)).rejects.toMatchObject({ code: "model_unusable" });
    }
  });

  it("is refused or read, without a crash, if any byte of the header is wrong", async () => {
    const whole = await readFile(await getModelFile("tiny"));
    const path = join(folder, "flipped.gguf");
    for (let at = 0; at < 2000; at += 7) {
      const bytes = Buffer.from(whole);
      bytes.writeUInt8(0xff, at);
      await writeFile(path, bytes);
      await inspect(path).catch((error: unknown) => {
        expect(error).toMatchObject({ code: "model_unusable" });
      });
    }
  });

  it("is reported as missing if it does not exist", async () => {
    await expect(inspect(join(folder, "nowhere.gguf"))).rejects.toThrow(
      'the file of model "acme/tiny" does not exist',
    );
  });

  it("is not reported by an inspection that is aborted; the inspection rejects with the abort reason", async () => {
    const path = await getModelFile("tiny");
    const reason = new Error("enough");
    await expect(inspectModel({ id: "m", path }, AbortSignal.abort(reason))).rejects.toBe(reason);
  });
});
