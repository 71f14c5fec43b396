import { copyFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openLocalInference } from "../../../../src/assistant/daemons/local-inference.ts";
import { Cleanup } from "../../../../src/base/cleanup.ts";
import { systemClock } from "../../../../src/base/clock.ts";
import { silentLogger } from "../../../../src/base/logger.ts";
import {
  type AssistantFlags,
  loadAssistantConfig,
} from "../../../../src/config/assistant-config.ts";
import { FakeLedger } from "../../../support/fake-ledger.ts";
import { getModelFile } from "../../../support/gguf/preset-model.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";

async function openWith(flags: AssistantFlags, cleanup: Cleanup) {
  const dataDir = temporaryFolder("assistant");
  await copyFile(await getModelFile("tiny", { template: null }), join(dataDir, "base.gguf"));
  await copyFile(await getModelFile("tiny"), join(dataDir, "chat.gguf"));
  await writeFile(join(dataDir, "own.jinja"), "{{ messages[0].content }}");
  const config = loadAssistantConfig({
    flags: { dataDir, engine: "llama", ...flags },
    environment: {},
    workingDirectory: dataDir,
    isTerminal: false,
  });
  const dependencies = { clock: systemClock, logger: silentLogger };
  const ledger = Object.assign(new FakeLedger(), { state: { ok: true } });
  return openLocalInference(config, { ledger, ...dependencies }, cleanup);
}

test("--chat-template replaces the chat templates of all models that --model names, or only that of the model before the equals sign", async () => {
  await using cleanup = new Cleanup();
  const model = ["base.gguf", "chat.gguf"];
  const one = await openWith({ model, chatTemplate: ["base=own.jinja"] }, cleanup);
  const factsOf = async ({ known, facts }: typeof one, id: string) =>
    facts.get(await known.find(id));
  const own = { kind: "chat", chatTemplate: "{{ messages[0].content }}" };
  expect(await factsOf(one, "base")).toMatchObject(own);
  expect(await factsOf(one, "chat")).not.toMatchObject(own);
  const all = await openWith({ model, chatTemplate: ["own.jinja"] }, cleanup);
  expect(await factsOf(all, "base")).toMatchObject(own);
  expect(await factsOf(all, "chat")).toMatchObject(own);
});

test("a chat template that cannot be parsed ends the start with an error that says so", async () => {
  await using cleanup = new Cleanup();
  const flags = { model: ["base.gguf"], chatTemplate: ["{% for m in messages %}"] };
  await expect(openWith(flags, cleanup)).rejects.toMatchObject({
    code: "model_unusable",
    message: expect.stringContaining("chat template is invalid"),
  });
});
