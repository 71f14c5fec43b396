import { once } from "node:events";
import { get } from "node:https";
import OpenAI from "openai";
import { expect, it } from "vitest";
import { TestProvider } from "../../../support/provider/test-provider.ts";

const KEY = "test-key-0123456789";

it("the official openai client can list models, chat and embed texts at the test provider", async () => {
  await using provider = await TestProvider.start({ key: KEY });
  const client = new OpenAI({ baseURL: provider.baseUrl, apiKey: KEY, maxRetries: 0 });

  const models = await client.models.list();
  const stream = await client.chat.completions.create({
    model: "test-model",
    messages: [{ role: "user", content: "two words" }],
    stream: true,
    stream_options: { include_usage: true },
  });
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  const whole = await client.chat.completions.create({
    model: "test-model",
    messages: [{ role: "user", content: "two words" }],
  });
  const embeddings = await client.embeddings.create({
    model: "test-embedder",
    input: ["a", "b"],
    encoding_format: "float",
  });

  expect(models.data.map(({ id }) => id)).toEqual(["test-model", "test-embedder"]);
  expect(chunks[0]?.choices[0]?.delta.role).toBe("assistant");
  expect(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("")).toBe(
    "You said: two words",
  );
  expect(chunks.at(-2)?.choices[0]?.finish_reason).toBe("stop");
  expect(chunks.at(-1)?.usage?.completion_tokens).toBe(4);
  expect(whole.choices[0]?.message.content).toBe("You said: two words");
  expect(embeddings.data).toHaveLength(2);
  expect(provider.requests.map(({ path }) => path)).toEqual([
    "/v1/models",
    "/v1/chat/completions",
    "/v1/chat/completions",
    "/v1/embeddings",
  ]);
  await provider.until(() => provider.requests.every(({ state }) => state === "answered"));
});

it("the certificate of the test provider is signed only by its own authority", async () => {
  await using provider = await TestProvider.start({ tls: true });
  const ask = async (options: object) => {
    const request = get(`${provider.baseUrl}/models`, { agent: false, ...options });
    const [response] = await once(request, "response");
    return response.resume().statusCode;
  };

  await expect(ask({})).rejects.toMatchObject({ code: "UNABLE_TO_VERIFY_LEAF_SIGNATURE" });
  await expect(ask({ ca: provider.ca })).resolves.toBe(200);
});
