import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { AssistantProcess } from "../support/assistant-process.ts";
import { freePorts } from "../support/free-port.ts";
import { getModelFile } from "../support/gguf/preset-model.ts";

const run = promisify(execFile);
const examples = join(import.meta.dirname, "../../examples/assistant");
const modelApp = join(import.meta.dirname, "../../examples/model-app/server.mjs");

test("the example programs print a chat's answer and a valid invoice, and fail without a daemon", async () => {
  await using daemon = await AssistantProcess.start(["--model", await getModelFile("tiny")]);
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

test("the example app returns the model's answers, and reports a missing model", async () => {
  await using daemon = await AssistantProcess.start(["--engine", "stub"]);
  const [port = 0] = await freePorts(1);
  const env = {
    ...process.env,
    PORT: String(port),
    OPENAI_BASE_URL: `${daemon.ready.url}/v1`,
    OPENAI_MODEL: "stub",
  };
  const app = spawn(process.execPath, [modelApp], { env, stdio: ["ignore", "pipe", "inherit"] });
  try {
    await once(app.stdout, "data");
    const get = async (path: string) => {
      const answer = await fetch(`http://127.0.0.1:${port}${path}`);
      return { status: answer.status, text: await answer.text() };
    };
    expect(await get("/")).toMatchObject({ status: 200, text: expect.stringContaining("ask me") });
    const { choices } = await daemon.openai.chat.completions.create({
      model: "stub",
      messages: [{ role: "user", content: "a & b?" }],
      max_tokens: 256,
    });
    expect(choices[0]?.message.content).not.toBe("");
    expect(await get("/?q=a+%26+b%3F")).toEqual({
      status: 200,
      text: `${choices[0]?.message.content}\n`,
    });
    await daemon.stop();
    expect((await get("/?q=hi")).status).toBe(502);
  } finally {
    app.kill();
    await once(app, "close");
  }
});
