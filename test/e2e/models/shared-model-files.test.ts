import { readdir, realpath } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ggufFile, ModelE2eHarness, modelSpecFile } from "../../support/model-e2e-harness.ts";

test("two Models with the same content share one download, and the file remains until both Models are deleted", async () => {
  const tiny = await ggufFile("tiny");
  await using world = await ModelE2eHarness.open();
  const { berth, hub, models } = world;
  // The hub limits the speed, so that the second Model starts while the first is still downloading.
  hub.faults.add({ on: "cdn", type: "slow", bytesPerSecond: 600_000 });
  for (const id of ["org/one", "other/two"])
    await hub.addRepository({ id, files: { [`${id.slice(-3)}-Q4_K_M.gguf`]: tiny.bytes } });
  const spec = { running: true, parallel: 1, contextSize: 256 };
  await berth.write("one.yaml", modelSpecFile("one", { source: "org/one", ...spec }));
  await berth.write("two.yaml", modelSpecFile("two", { source: "other/two", ...spec }));
  const [one, two] = await Promise.all([
    world.waitForModelStatus("one", "running"),
    world.waitForModelStatus("two", "running"),
  ]);
  expect([one.sha256, two.sha256]).toEqual([tiny.sha256, tiny.sha256]);
  expect(hub.bytesSent).toBe(tiny.bytes.length);
  expect(await blobsOf(world)).toEqual([tiny.sha256]);
  const said = await world.say("one");
  for (const name of ["two", "org/one", "other/two"]) expect(await world.say(name)).toBe(said);

  await models.delete("one", { files: true, force: true, wait: true });
  await world.waitUntilModelGone("one");
  expect(await blobsOf(world)).toEqual([tiny.sha256]);
  expect(await world.say("two")).toBe(said);
  // The test stops and starts the model, so that it is loaded from the file again.
  await models.stop("two", { force: true, wait: true });
  await models.start("two", { force: true, wait: true });
  expect(await world.say("other/two")).toBe(said);

  await models.delete("two", { files: true, force: true, wait: true });
  await world.waitUntilModelGone("two");
  expect(await blobsOf(world)).toEqual([]);
  expect(hub.bytesSent).toBe(tiny.bytes.length);
});

/** Returns the digests of the stored files and skips other entries of the directory. */
async function blobsOf(world: ModelE2eHarness): Promise<string[]> {
  const entries = await readdir(await realpath(join(world.blobsDir)));
  return entries.filter((entry) => /^[0-9a-f]{64}$/.test(entry));
}

test("two Models of one repository with different settings run concurrently, and an ambiguous repository id selects neither", async () => {
  const tiny = await ggufFile("tiny");
  await using world = await ModelE2eHarness.open();
  const { berth, hub, models } = world;
  await hub.addRepository({ id: "org/tiny", files: { "tiny-Q4_K_M.gguf": tiny.bytes } });
  const spec = { source: "org/tiny", running: true, parallel: 1, contextSize: 256 };
  await berth.write("short.yaml", modelSpecFile("short", spec));
  await world.waitForModelStatus("short", "running");
  await berth.write("long.yaml", modelSpecFile("long", { ...spec, contextSize: 1_024 }));
  expect(await world.waitForModelStatus("long", "running")).toMatchObject({
    ready: true,
    context_length: 1_024,
    aliases: [],
  });
  expect(await world.say("long")).toBe(await world.say("short"));
  expect(await world.call("GET", "/api/llm/models/org%2Ftiny")).toMatchObject({
    status: 409,
    body: { error: expect.stringMatching(/long, short/) },
  });
  // The remaining Model gets the repository's aliases when it is loaded again.
  await berth.remove("short.yaml");
  await world.waitUntilModelGone("short");
  await models.stop("long", { force: true, wait: true });
  await models.start("long", { force: true, wait: true });
  expect((await models.get("org/tiny")).aliases).toEqual(["org/tiny", "org/tiny:Q4_K_M"]);
  expect(await world.say("org/tiny")).toBe(await world.say("long"));
  expect(hub.bytesSent).toBe(tiny.bytes.length);
});
