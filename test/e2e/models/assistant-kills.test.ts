import { expect, test } from "vitest";
import {
  eventually,
  ggufFile,
  ModelE2eHarness,
  modelSpecFile,
} from "../../support/model-e2e-harness.ts";
import { isProcessAlive } from "../../support/processes.ts";

const REPOSITORY = "org/tiny";
const spec = { source: REPOSITORY, running: true, parallel: 1 };

/** A Berth whose hub has one model, which never ends an answer by itself. */
async function openWorld(): Promise<ModelE2eHarness> {
  const tiny = await ggufFile("tiny", { endsAfter: null });
  const world = await ModelE2eHarness.open();
  await world.hub.addRepository({ id: REPOSITORY, files: { "tiny-Q4_K_M.gguf": tiny.bytes } });
  return world;
}

test("the assistant, killed while it loads and in mid-answer, comes back with the model; Berth goes on", async () => {
  await using world = await openWorld();
  const { berth, hub } = world;
  await berth.write("chat.yaml", modelSpecFile("chat", spec));
  await world.waitForModelStatus("chat", "starting");
  const first = await world.killAssistant();
  await world.waitForModelStatus("chat", "running");
  const second = await world.assistantPid();
  expect(second).not.toBe(first);
  const said = await world.say("chat");
  expect(said).not.toBe("");

  const openai = await world.openai();
  const stream = await openai.chat.completions.create({
    model: REPOSITORY,
    messages: [{ role: "user", content: "hello" }],
    max_tokens: 2_000,
    stream: true,
  });
  let pieces = 0;
  const reading = (async () => {
    for await (const _ of stream) {
      pieces += 1;
      if (pieces === 3) await world.killAssistant();
    }
  })();
  // Nobody is told that this was the whole answer.
  await expect(reading).rejects.toBeInstanceOf(Error);
  expect(pieces).toBeGreaterThan(2);
  // The status says so before it is back, and then the model answers as it did.
  await world.waitForModel("chat", "it is known to be away", ({ running }) => !running);
  await world.waitForModelStatus("chat", "running");
  expect(await world.assistantPid()).not.toBe(second);
  expect(await world.say("chat")).toBe(said);

  expect(berth.isRunning).toBe(true);
  expect(await world.call("GET", "/api/health")).toMatchObject({ status: 200 });
  expect((await berth.client.system.info()).assistant).toMatchObject({ state: "up", starts: 3 });
  const { events } = await berth.client.events.list({ limit: 500 });
  expect(events.find(({ reason }) => reason === "AssistantEnded")).toMatchObject({
    type: "Warning",
    message: expect.stringContaining("SIGKILL"),
  });
  const tiny = await ggufFile("tiny", { endsAfter: null });
  expect(hub.bytesSent).toBe(tiny.bytes.length);
});

test("a load that failed is forgotten once the next one has ended, also where Berth is killed in between", async () => {
  await using world = await openWorld();
  const { berth } = world;
  await berth.write("chat.yaml", modelSpecFile("chat", spec));
  await world.waitForModelStatus("chat", "starting");
  await world.killAssistant();
  // Where the kill came before the assistant was asked, nothing has failed: the load only comes later.
  await world.waitForModel(
    "chat",
    "it says what has failed, or was not asked for before the kill",
    ({ error, ready }) => error !== null || ready,
  );
  const url = await world.assistantUrl();
  await eventually("it is loaded again", async () => "chat" in (await world.served(url)));
  await berth.kill();
  // The assistant goes on with what it was asked for.
  await eventually("it is in memory", async () => (await world.served(url))["chat"] === "resident");
  await berth.start();
  expect(await world.waitForModel("chat", "it is Ready", ({ ready }) => ready)).toMatchObject({
    status: "running",
    error: null,
    next_retry_at: null,
  });
  expect(await world.say("chat")).not.toBe("");
});

test("Berth and the assistant, killed together or apart while a model is loaded or exchanged, come back with it", async () => {
  await using world = await openWorld();
  const { berth, hub } = world;
  await berth.write("chat.yaml", modelSpecFile("chat", spec));
  await world.waitForModelStatus("chat", "starting");
  await Promise.all([berth.kill(), world.killAssistant()]);
  await berth.start();
  await world.waitForModelStatus("chat", "running");
  const said = await world.say(REPOSITORY);

  // Berth alone, while the assistant exchanges the model at its word: the load goes on without it.
  const before = await world.assistantPid();
  await berth.write("chat.yaml", modelSpecFile("chat", { ...spec, contextSize: 512 }));
  await world.waitForModelStatus("chat", "starting");
  await berth.kill();
  await berth.start();
  expect(await world.waitForModelStatus("chat", "running")).toMatchObject({ context_length: 512 });
  expect(await world.assistantPid()).toBe(before);
  expect(await world.say("chat")).toBe(said);
  expect(await berth.event("AssistantTakenOver")).toMatchObject({ type: "Normal" });

  // One that was taken over is no child, and is missed all the same.
  await world.killAssistant();
  await world.waitForModel("chat", "it is known to be away", ({ running }) => !running);
  await world.waitForModelStatus("chat", "running");
  expect(await world.say("chat")).toBe(said);

  await Promise.all([berth.kill(), world.killAssistant()]);
  await berth.start();
  expect(await world.waitForModelStatus("chat", "running")).toMatchObject({ context_length: 512 });
  expect(await world.say("chat")).toBe(said);
  const tiny = await ggufFile("tiny", { endsAfter: null });
  expect(hub.bytesSent).toBe(tiny.bytes.length);

  // A word is enough to end both.
  const pid = await world.assistantPid();
  expect(await berth.stop()).toBe(0);
  expect(isProcessAlive(pid)).toBe(false);
});
