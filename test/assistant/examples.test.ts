import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { AssistantProcess } from "../support/assistant-process.ts";
import { modelFile } from "../support/gguf/model-file.ts";

const run = promisify(execFile);
const examples = join(import.meta.dirname, "../../examples/assistant");

test("the examples do what they say", async () => {
  await using daemon = await AssistantProcess.start(["--model", await modelFile("tiny")]);
  const env = { ...process.env, BERTH_ASSISTANT_URL: daemon.ready.url };
  const chat = await run(process.execPath, [join(examples, "chat.mjs"), "Hello"], { env });
  expect(chat.stdout.trim()).not.toBe("");
  const invoice = await run(process.execPath, [join(examples, "invoice.mjs")], { env });
  expect(invoice.stdout).toMatch(/item: .*count: \d+.*price: [\d.]+.*currency: '(EUR|USD|CHF)'/s);
  await daemon.stop();
  await expect(run(process.execPath, [join(examples, "chat.mjs")], { env })).rejects.toMatchObject({
    code: 1,
  });
});
