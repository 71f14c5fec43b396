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

/** Starts Berth with a hub that has one model, which never ends an answer before the token limit. */
async function openWorld(): Promise<ModelE2eHarness> {
  const tiny = await ggufFile("tiny", { endsAfter: null });
  const world = await ModelE2eHarness.open();
  await world.hub.addRepository({ id: REPOSITORY, files: { "tiny-Q4_K_M.gguf": tiny.bytes } });
  return world;
}

test("when the assistant is killed during a load or an answer, Berth keeps running and restores the assistant and its model", async () => {
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
  // The client must get an error, because a truncated answer would look complete.
  await expect(reading).rejects.toBeInstanceOf(Error);
  expect(pieces).toBeGreaterThan(2);
  // The Model is not running until the next assistant has loaded it. It then gives the same answer as before.
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

test("a successful load clears the error of an earlier failed load, even if Berth is killed between the two loads", async () => {
  await using world = await openWorld();
  const { berth } = world;
  await berth.write("chat.yaml", modelSpecFile("chat", spec));
  await world.waitForModelStatus("chat", "starting");
  await world.killAssistant();
  // If the kill happens before Berth requests the load, nothing fails and the load only starts later.
  await world.waitForModel(
    "chat",
    "it says what has failed, or was not asked for before the kill",
    ({ error, ready }) => error !== null || ready,
  );
  const url = await world.assistantUrl();
  await eventually("it is loaded again", async () => "chat" in (await world.served(url)));
  await berth.kill();
  // The assistant finishes the load although Berth is dead.
  await eventually("it is in memory", async () => (await world.served(url))["chat"] === "resident");
  await berth.start();
  expect(await world.waitForModel("chat", "it is Ready", ({ ready }) => ready)).toMatchObject({
    status: "running",
    error: null,
    next_retry_at: null,
  });
  expect(await world.say("chat")).not.toBe("");
});

test("when Berth, the assistant or both are killed while a model is loaded or replaced, the model runs again after the restart", async () => {
  await using world = await openWorld();
  const { berth, hub } = world;
  await berth.write("chat.yaml", modelSpecFile("chat", spec));
  await world.waitForModelStatus("chat", "starting");
  await Promise.all([berth.kill(), world.killAssistant()]);
  await berth.start();
  await world.waitForModelStatus("chat", "running");
  const said = await world.say(REPOSITORY);

  // Kills only Berth while the assistant replaces the model: the load continues without Berth.
  const before = await world.assistantPid();
  await berth.write("chat.yaml", modelSpecFile("chat", { ...spec, contextSize: 512 }));
  await world.waitForModelStatus("chat", "starting");
  await berth.kill();
  await berth.start();
  expect(await world.waitForModelStatus("chat", "running")).toMatchObject({ context_length: 512 });
  expect(await world.assistantPid()).toBe(before);
  expect(await world.say("chat")).toBe(said);
  expect(await berth.event("AssistantTakenOver")).toMatchObject({ type: "Normal" });

  // Berth also detects the exit of an assistant that it took over, which is not its child process.
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

  // A normal stop of Berth also stops the assistant that it took over.
  const pid = await world.assistantPid();
  expect(await berth.stop()).toBe(0);
  expect(isProcessAlive(pid)).toBe(false);
});
