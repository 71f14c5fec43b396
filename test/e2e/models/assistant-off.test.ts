import { expect, test } from "vitest";
import { ggufFile, ModelE2eHarness, modelSpecFile } from "../../support/model-e2e-harness.ts";

test("when the assistant is off, models are downloaded and their status explains why they do not run", async () => {
  const tiny = await ggufFile("tiny");
  await using world = await ModelE2eHarness.open({ assistant: false });
  const { berth, hub } = world;
  await hub.addRepository({ id: "org/tiny", files: { "tiny-Q4_K_M.gguf": tiny.bytes } });
  await berth.write("chat.yaml", modelSpecFile("chat", { source: "org/tiny", running: true }));
  const model = await world.waitForModelStatus("chat", "ready");
  expect(model).toMatchObject({
    ready: false,
    running: false,
    sha256: tiny.sha256,
    message: expect.stringContaining("assistant"),
  });
  expect(model.message).toMatch(/off/);
  expect(model.conditions.find(({ type }) => type === "Ready")).toMatchObject({
    status: "Unknown",
    reason: "AssistantUnreachable",
  });
  expect((await berth.client.system.info()).assistant).toMatchObject({ state: "off", url: null });

  const body = { model: "org/tiny" };
  expect(await world.call("POST", "/api/llm/start", body)).toMatchObject({
    status: 202,
    body: { status: "ready", message: expect.stringMatching(/assistant.*off/s) },
  });
  // A request with `wait=true` fails at once, because the model can never start.
  expect(await world.call("POST", "/api/llm/start?wait=true", body)).toMatchObject({
    status: 503,
    body: { error: expect.stringMatching(/assistant.*off/s) },
  });
  const download = "/api/llm/models/org%2Ftiny/download?wait=true";
  expect(await world.call("POST", download)).toMatchObject({ status: 200 });
});
