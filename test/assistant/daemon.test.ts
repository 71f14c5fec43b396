import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { AssistantProcess, berth } from "../support/assistant-process.ts";
import { getModelFile } from "../support/gguf/preset-model.ts";

let tiny: string;
let embedding: string;
beforeAll(async () => {
  [tiny, embedding] = await Promise.all([getModelFile("tiny"), getModelFile("embedding")]);
});

const person = {
  type: "object",
  properties: {
    name: { type: "string", maxLength: 12 },
    age: { type: "integer", minimum: 0, maximum: 130 },
    tags: { type: "array", items: { enum: ["a", "b"] }, maxItems: 3 },
  },
  required: ["name", "age", "tags"],
  additionalProperties: false,
};

describe("a daemon that is started with model files", () => {
  test("serves the chats, streams, JSON answers and embeddings of the openai client, and records each request in the ledger", async () => {
    await using daemon = await AssistantProcess.start([
      "--model",
      `chat=${tiny}`,
      "--model",
      embedding,
      "--alias",
      "gpt-4o-mini=chat",
    ]);
    const { openai } = daemon;
    const messages = [{ role: "user" as const, content: "Who are you?" }];

    const answer = await openai.chat.completions.create({
      model: "gpt-4o-mini",
      messages,
      max_tokens: 12,
      seed: 1,
    });
    expect(answer.id).toMatch(/^chatcmpl-/);
    expect(answer.model).toBe("chat");
    expect(answer.choices[0]?.message.role).toBe("assistant");
    expect(answer.usage?.total_tokens).toBe(
      (answer.usage?.prompt_tokens ?? 0) + (answer.usage?.completion_tokens ?? 0),
    );

    let streamed = "";
    let finish: string | null | undefined;
    const stream = await openai.chat.completions.create({
      model: "chat",
      messages,
      max_tokens: 12,
      seed: 1,
      stream: true,
    });
    for await (const chunk of stream) {
      streamed += chunk.choices[0]?.delta.content ?? "";
      finish = chunk.choices[0]?.finish_reason ?? finish;
    }
    expect(streamed).toBe(answer.choices[0]?.message.content);
    expect(finish).toBe(answer.choices[0]?.finish_reason);

    const guided = await openai.chat.completions.create({
      model: "chat",
      messages,
      response_format: { type: "json_schema", json_schema: { name: "person", schema: person } },
    });
    expect(JSON.parse(guided.choices[0]?.message.content ?? "")).toEqual({
      name: expect.any(String),
      age: expect.any(Number),
      tags: expect.any(Array),
    });

    const embedded = await openai.embeddings.create({
      model: "chat",
      input: ["one text", "another text"],
    });
    expect(embedded.data.map(({ index }) => index)).toEqual([0, 1]);
    for (const { embedding: vector } of embedded.data)
      expect(Math.hypot(...vector)).toBeCloseTo(1, 4);

    const models = await openai.models.list();
    expect(models.data.map(({ id }) => id).toSorted((a, b) => a.localeCompare(b))).toContain(
      "chat",
    );

    const state = await daemon.state();
    expect(state.ledger).toMatchObject({ ok: true });
    expect(await daemon.stop()).toBe(0);

    const verified = await berth(["ledger", "verify", "--data-dir", daemon.dataDir, "--json"]);
    expect(verified).toMatchObject({ code: 0, stderr: "" });
    const tail = await berth(["ledger", "tail", "--data-dir", daemon.dataDir, "--json"]);
    const names = tail.stdout.match(/inference\.(generate|embed)/g) ?? [];
    expect(names).toEqual([
      "inference.generate",
      "inference.generate",
      "inference.generate",
      "inference.embed",
    ]);
    expect(tail.stdout).not.toContain("Who are you?");
  });

  test("writes its address and process id to a file, listens on loopback only, and exits on SIGTERM", async () => {
    await using daemon = await AssistantProcess.start(["--engine", "stub"]);
    const said: unknown = JSON.parse(
      await readFile(join(daemon.dataDir, "run/assistant.json"), "utf8"),
    );
    expect(said).toEqual(daemon.ready);
    expect(daemon.ready.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    const health = await fetch(`${daemon.ready.url}/health`);
    expect(await health.json()).toMatchObject({ status: "ok", engine: "stub" });
    expect(await daemon.stop()).toBe(0);
  });

  test("keeps running when a second daemon is started on its data directory, and the second one is refused", async () => {
    await using daemon = await AssistantProcess.start(["--engine", "stub"]);
    const second = await berth([
      "assistant",
      "--engine",
      "stub",
      "--port",
      "0",
      "--data-dir",
      daemon.dataDir,
    ]);
    expect(second.code).toBe(1);
    expect(second.stderr).toMatch(/^error: the ledger is being written by another process/m);
    expect(second.stderr).not.toContain("    at ");
    expect((await fetch(`${daemon.ready.url}/health`)).status).toBe(200);
  });
});

describe("the control socket", () => {
  test("loads, lists and unloads models", async () => {
    await using daemon = await AssistantProcess.start();
    const chat = async () => {
      const response = await fetch(`${daemon.ready.url}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ messages: [{ role: "user", content: "hello" }], max_tokens: 2 }),
      });
      const body: unknown = await response.json();
      return { status: response.status, body };
    };
    expect(await chat()).toMatchObject({ status: 503, body: { error: { code: "no_model" } } });
    await daemon.control("POST", "/models/load", { id: "org/tiny:f32", path: tiny, sequences: 2 });
    const [model] = (await daemon.state()).models;
    expect(model).toMatchObject({
      id: "org/tiny:f32",
      state: "resident",
      sequences: 2,
      pinned: true,
    });
    expect(await chat()).toMatchObject({ status: 200, body: { model: "org/tiny:f32" } });
    await daemon.control("POST", "/models/unload", { id: "org/tiny:f32" });
    expect((await daemon.state()).models).toEqual([]);
    await expect(
      daemon.control("POST", "/models/load", { id: "nowhere", path: "/nowhere.gguf" }),
    ).rejects.toThrow("model_unusable");
  });
});
