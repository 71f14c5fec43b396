import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { writeSplitModel } from "../../support/gguf/split-model.ts";
import { ggufFile, ModelE2eHarness, modelSpecFile } from "../../support/model-e2e-harness.ts";

const REPOSITORY = "org/tiny-GGUF";

/** Starts Berth with a hub that has one repository of two models, which give different answers. */
async function openWorld(flags: readonly string[] = []) {
  const [q4, q8] = await Promise.all([ggufFile("tiny"), ggufFile("tiny", { seed: 2 })]);
  const world = await ModelE2eHarness.open({ flags });
  await world.hub.addRepository({
    id: REPOSITORY,
    files: {
      "tiny-Q4_K_M.gguf": q4.bytes,
      "tiny-Q8_0.gguf": q8.bytes,
      "README.md": Buffer.from("hi"),
    },
  });
  return { world, q4, q8 };
}

test("a model follows its spec file: it is downloaded and started, reloaded, stopped and removed when the file changes", async () => {
  const { world, q4 } = await openWorld();
  await using _ = world;
  const { berth, hub } = world;
  const spec = { source: REPOSITORY, quantization: "Q4_K_M", running: true, parallel: 1 };
  // Berth removes no resources while the specs folder is empty, so the folder contains a second file.
  await berth.write("other.yaml", modelSpecFile("other", { source: "/nowhere.gguf" }));
  await berth.write("chat.yaml", modelSpecFile("chat", spec));
  const running = await world.waitForModelStatus("chat", "running");
  expect(running).toMatchObject({
    id: REPOSITORY,
    ready: true,
    running: true,
    sha256: q4.sha256,
    size_bytes: q4.bytes.length,
    downloaded_bytes: q4.bytes.length,
    commit: expect.stringMatching(/^[0-9a-f]{40}$/),
    managed_by: "file:chat.yaml",
    context_length: 2_048,
    error: null,
  });
  expect(await world.reasons("chat")).toEqual(["SpecApplied", "Resolved", "Downloaded", "Started"]);
  const said = await world.say("chat");
  expect(said).not.toBe("");
  expect(await world.say(REPOSITORY)).toBe(said);
  expect(await world.say(`${REPOSITORY}:Q4_K_M`)).toBe(said);
  // Berth follows the hub's redirect, downloads the file once and sends no token, because none is set.
  expect(hub.at("cdn").reduce((sum, { bodyBytes }) => sum + bodyBytes, 0)).toBe(q4.bytes.length);
  expect(hub.requests.every(({ headers }) => headers.authorization === undefined)).toBe(true);

  const { length } = hub.requests;
  await berth.write("chat.yaml", modelSpecFile("chat", { ...spec, contextSize: 512 }));
  const smaller = await world.waitForModel(
    "chat",
    "it has the new context",
    ({ ready, context_length: tokens }) => ready && tokens === 512,
  );
  expect(smaller.status).toBe("running");
  expect(await world.say("chat")).toBe(said);
  expect(hub.requests.length).toBe(length);

  await berth.write("chat.yaml", modelSpecFile("chat", { ...spec, running: false }));
  expect(await world.waitForModelStatus("chat", "ready")).toMatchObject({
    ready: true,
    running: false,
  });
  expect(await world.served()).toEqual({});

  await berth.write("chat.yaml", modelSpecFile("chat", spec));
  await world.waitForModelStatus("chat", "running");
  await berth.remove("chat.yaml");
  await world.waitUntilModelGone("chat");
  expect(await world.served()).toEqual({});
  // The file stays on the disk while the disk budget suffices, so another Model can use it without a download.
  expect(await readdir(world.blobsDir)).toContain(q4.sha256);
  await berth.write("again.yaml", modelSpecFile("again", { source: REPOSITORY }));
  expect(await world.waitForModelStatus("again", "ready")).toMatchObject({ sha256: q4.sha256 });
  expect(hub.bytesSent).toBe(q4.bytes.length);
});

test("a model split into three files is downloaded as one model and answers like the unsplit model", async () => {
  const { world, q4 } = await openWorld();
  await using _ = world;
  const dir = await mkdtemp(join(tmpdir(), "berth-split-"));
  try {
    const names = await writeSplitModel(dir, "tiny-Q4_K_M", 3, "tiny");
    await world.hub.addRepository({
      id: "org/parts-GGUF",
      files: Object.fromEntries(names.map((name) => [`Q4_K_M/${name}`, join(dir, name)])),
    });
    const spec = { running: true, parallel: 1 };
    await world.berth.write("whole.yaml", modelSpecFile("whole", { source: REPOSITORY, ...spec }));
    await world.berth.write(
      "parts.yaml",
      modelSpecFile("parts", { source: "org/parts-GGUF", ...spec }),
    );
    await world.waitForModelStatus("whole", "running");
    const parts = await world.waitForModelStatus("parts", "running");
    expect(parts.size_bytes).toBeGreaterThan(q4.bytes.length);
    expect(await readdir(world.blobsDir)).toEqual(expect.arrayContaining([q4.sha256]));
    expect(await world.say("parts")).toBe(await world.say("whole"));
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
});

test("the API downloads, starts, stops and removes a model by its repository id", async () => {
  const { world, q4, q8 } = await openWorld(["--models-disk=500Ki"]);
  await using _ = world;
  const { hub, models } = world;
  const call = (method: string, path: string, body?: unknown) =>
    world.call(method, `/api/llm/${path}`, body);
  const encoded = "models/org%2Ftiny-GGUF";
  expect(await call("POST", `${encoded}/download`)).toMatchObject({
    status: 202,
    body: { id: REPOSITORY, name: "tiny", running: false },
  });
  // A second download request does not fetch the file again.
  expect(await call("POST", `${encoded}/download?wait=true`)).toMatchObject({
    status: 200,
    body: { status: "ready", sha256: q4.sha256, progress: 1, managed_by: "api" },
  });
  expect(hub.bytesSent).toBe(q4.bytes.length);

  const start = await call("POST", "start?wait=true", { model: REPOSITORY });
  expect(start).toMatchObject({ status: 200, body: { status: "running", name: "tiny" } });
  expect(await world.say(REPOSITORY)).toBe(await world.say("tiny"));
  expect(await call("POST", "start", { model: "tiny" })).toMatchObject({ status: 200 });
  expect(await call("GET", "models?status=running")).toMatchObject({
    body: { total: 1, models: [{ id: REPOSITORY, name: "tiny", quantization: "Q4_K_M" }] },
  });

  // A start request downloads the model first if it is not on disk; both models fit in memory.
  const second = await call("POST", "start?wait=true", { model: `${REPOSITORY}:Q8_0` });
  expect(second).toMatchObject({
    status: 200,
    body: { status: "running", sha256: q8.sha256, aliases: [`${REPOSITORY}:Q8_0`] },
  });
  expect(hub.bytesSent).toBe(q4.bytes.length + q8.bytes.length);
  expect(await world.say("tiny-q8-0")).not.toBe(await world.say("tiny"));

  expect(await call("POST", "stop?wait=true")).toMatchObject({ status: 200, body: { total: 2 } });
  expect(await world.served()).toEqual({});
  expect(await call("POST", "stop")).toMatchObject({ status: 200, body: { total: 0 } });

  await models.delete("tiny-q8-0", { files: true, wait: true });
  await world.waitUntilModelGone("tiny-q8-0");
  const blobs = await readdir(world.blobsDir);
  expect(blobs).toContain(q4.sha256);
  expect(blobs).not.toContain(q8.sha256);

  // The file of a deleted Model remains until a download needs its space. The next download needs the space, because
  // both files together exceed the disk budget.
  await models.delete("tiny", { wait: true });
  expect(await readdir(world.blobsDir)).toContain(q4.sha256);
  await models.start(`${REPOSITORY}:Q8_0`, { wait: true });
  await world.berth.until("the other one has made room", async () => {
    return !(await readdir(world.blobsDir)).includes(q4.sha256);
  });
  expect(await readdir(world.blobsDir)).toContain(q8.sha256);
});

test("the command line pulls, starts, lists, shows, chats with, stops and removes a model", async () => {
  const { world, q4 } = await openWorld();
  await using _ = world;
  const { berth } = world;
  const run = async (...words: string[]) => {
    const { code, stdout, stderr } = await berth.cli(words);
    expect({ words, code, stderr }).toMatchObject({ code: 0 });
    return stdout;
  };
  expect(await run("models", "pull", REPOSITORY, "--name", "small")).toContain(
    `model/small is on disk: tiny-Q4_K_M.gguf, 390 KiB, sha256 ${q4.sha256}`,
  );
  const started = await run("models", "start", "small", "--parallel", "1");
  expect(started).toContain("model/small is running: up to 2048 tokens");
  expect(started).toContain("berth chat small");
  const said = await world.say("small");
  expect(await run("models", "ls")).toMatch(/small\s.*running/);
  expect(await run("models", "show", "small")).toContain(q4.sha256);
  const talk = await run("chat", "small", "hello", "--max-tokens", "4", "--temperature", "0");
  expect(talk.trim()).toBe(said.trim());
  expect(await run("models", "stop", "small")).toContain("model/small is stopping");
  await world.waitForModelStatus("small", "ready");
  // A chat with a stopped model fails with an error that names the start command.
  const silent = await berth.cli(["chat", "small", "hello"]);
  expect(silent).toMatchObject({ code: 1, stderr: expect.stringContaining("berth models start") });
  expect(await run("models", "rm", "small")).toContain("model/small is being removed");
  await world.waitUntilModelGone("small");
  expect(await readdir(world.blobsDir)).toEqual([]);
});
