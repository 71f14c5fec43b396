import { expect, test } from "vitest";
import { ggufFile, ModelE2eHarness, modelSpecFile } from "../../support/model-e2e-harness.ts";

test("a model that does not fit in memory waits and reports the missing amount, and a model that the user starts evicts others", async () => {
  const [tiny, wide] = await Promise.all([ggufFile("tiny"), ggufFile("wide-context")]);
  // Each loaded model takes about 150 MB regardless of its size, so only one of the two models fits.
  await using world = await ModelE2eHarness.open({ flags: ["--assistant-memory=220Mi"] });
  const { berth, hub, models } = world;
  await hub.addRepository({ id: "org/tiny", files: { "tiny-Q4_K_M.gguf": tiny.bytes } });
  await hub.addRepository({ id: "org/wide", files: { "wide-Q4_K_M.gguf": wide.bytes } });
  const spec = { source: "org/tiny", running: true, parallel: 1, contextSize: 256 };
  await berth.write("first.yaml", modelSpecFile("first", spec));
  await world.waitForModelStatus("first", "running");
  await berth.write("second.yaml", modelSpecFile("second", spec));
  const waiting = await world.waitForModel(
    "second",
    "it is told that there is no room",
    ({ status, message }) => status === "ready" && message.includes("missing"),
  );
  expect(waiting).toMatchObject({ ready: false, running: false, error: null });
  expect(waiting.message).toMatch(
    /^the model needs at least [\d.]+ MiB of memory, and [\d.]+ MiB of 220 MiB are free in addition to first: [\d.]+ MiB are missing;/,
  );
  expect(waiting.message).toContain("berth models start second gives it priority over the others");
  expect((await models.plan("second")).blocked_by).toBe(waiting.message);

  expect(await models.start("second", { wait: true })).toMatchObject({
    model: { status: "running" },
  });
  expect(await world.say("second")).not.toBe("");
  const displaced = await world.waitForModel(
    "first",
    "it says why it left",
    ({ status, message }) => status === "ready" && message.includes("missing"),
  );
  expect(displaced.message).toContain("in addition to second");
  expect(await world.served()).toEqual({ second: "resident" });

  // The model of `org/wide` would not fit even if Berth evicted all other models, so Berth evicts none.
  await berth.write(
    "huge.yaml",
    modelSpecFile("huge", {
      source: "org/wide",
      running: true,
      contextSize: 131_072,
      parallel: 64,
    }),
  );
  const huge = await world.waitForModel(
    "huge",
    "it is told that it never fits",
    ({ status, message }) => status === "ready" && message.includes("missing"),
  );
  expect(huge.message).toMatch(
    /^the model needs at least [\d.]+ [GM]iB of memory, but the limit for all models is 220 MiB: [\d.]+ [GM]iB are missing;.*--assistant-memory/,
  );
  const told = await berth.cli(["models", "start", "huge"]);
  expect(told).toMatchObject({ code: 1, stderr: expect.stringContaining("are missing") });
  expect(await world.say("second")).not.toBe("");

  // Berth loads the evicted model again automatically as soon as enough memory is free.
  await berth.write("second.yaml", modelSpecFile("second", { ...spec, running: false }));
  await world.waitForModelStatus("first", "running");
  expect(await world.waitForModelStatus("second", "ready")).toMatchObject({ ready: true });
});
