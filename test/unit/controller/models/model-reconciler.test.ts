import { beforeEach, describe, expect, test } from "vitest";
import { BerthError } from "../../../../src/base/errors.ts";
import {
  FILE_POLICY_ANNOTATION,
  RETRIED_AT_ANNOTATION,
  STARTED_AT_ANNOTATION,
} from "../../../../src/resources/resource.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";
import { createResolvedModel } from "../../../support/fake-models.ts";

const small = { commit: "c1".repeat(20), bytes: 1_000, memoryBytes: 400, quantization: "Q4_K_M" };
const large = { commit: "d2".repeat(20), bytes: 5_000, memoryBytes: 700 };
const source = "org/small";
const keyOf = () => createResolvedModel(source, small).key;

let world: ControlPlaneHarness;

beforeEach(() => {
  world = new ControlPlaneHarness();
  world.models.repositories.set(source, small).set("org/large", large);
  world.boot();
  return () => world[Symbol.asyncDispose]();
});

const count = (call: string) => world.models.calls.filter((made) => made.startsWith(call)).length;
const events = () =>
  world.store.events.list({ kind: "Model", limit: 50 }).map(({ reason }) => reason);

describe("the steps of a Model", () => {
  test("a Model is resolved, downloaded and verified, and is not loaded until it should run", async () => {
    world.applyModel("small", { source });
    await world.waitForModelPhase("small", "downloading");
    await world.waitForModelPhase("small", "ready");
    const status = world.model("small")?.status;
    expect(status).toMatchObject({
      commit: small.commit,
      sizeBytes: 1_000,
      downloadedBytes: 1_000,
      loaded: null,
    });
    expect(world.modelCondition("small", "Ready")).toMatchObject({
      status: "True",
      reason: "OnDisk",
    });
    expect(count("load")).toBe(0);
    expect(events().toReversed()).toEqual(["Resolved", "Downloaded"]);
  });

  test("a Model that should run is loaded under its own name", async () => {
    world.applyModel("small", { source, running: true, contextSize: 2_048 });
    await world.waitForModelPhase("small", "starting");
    await world.waitForModelPhase("small", "running");
    expect(world.model("small")?.status).toMatchObject({
      loaded: { memoryBytes: 400, contextTokens: 2_048 },
      facts: { kind: "chat", memoryBytes: { least: 400 } },
    });
    expect(world.modelCondition("small", "Ready")).toMatchObject({ status: "True" });
    world.applyModel("small", { source, running: false });
    await world.waitForModelPhase("small", "stopping");
    await world.waitForModelPhase("small", "ready");
    expect(world.models.resident.size).toBe(0);
  });

  test("the status has the progress of a download", async () => {
    world.applyModel("small", { source });
    await world.clock.until(
      () => (world.model("small")?.status?.downloadedBytes ?? 0) >= 500,
      60_000,
      "half is there",
    );
    expect(world.model("small")?.status?.downloadedBytes).toBeLessThan(1_000);
    expect(world.controlPlane.modelProgress("small")).toMatchObject({
      step: "downloading",
      totalBytes: 1_000,
      bytesPerSecond: 100,
    });
    expect(world.modelCondition("small", "Ready")?.message).toMatch(/\d+ % of/);
  });

  test("new settings reload the model; a new source keeps the loaded one until the new files are complete", async () => {
    world.applyModel("small", { source, running: true });
    await world.waitForModelPhase("small", "running");
    world.applyModel("small", { source, contextSize: 1_024 });
    await world.clock.until(
      () => world.model("small")?.status?.loaded?.contextTokens === 1_024,
      60_000,
      "the new context",
    );
    expect(count("load")).toBe(2);
    const before = world.models.resident.get("small")?.path;
    world.applyModel("small", { source: "org/large" });
    await world.clock.until(() => count("download") === 2, 60_000, "the other download begins");
    expect(world.models.resident.get("small")?.path).toBe(before);
    expect(world.model("small")?.status?.phase).toBe("running");
    expect(world.modelCondition("small", "Ready")?.status).toBe("False");
    await world.clock.until(
      () => world.modelCondition("small", "Ready")?.status === "True",
      60_000,
      "the other one answers",
    );
    expect(world.models.resident.get("small")?.path).not.toBe(before);
  });

  test("a Model in its desired state has an empty plan", async () => {
    world.applyModel("small", { source, running: true });
    await world.waitForModelPhase("small", "running");
    const signal = new AbortController().signal;
    const report = await world.controlPlane.planModel("small", undefined, signal);
    expect(report).toMatchObject({ operations: [], changes: [], blockedBy: null });
    const calls = world.models.calls.length;
    await world.clock.advance(5 * 60_000);
    expect(world.models.calls).toHaveLength(calls);
  });

  test("a dry run shows every step and runs none", async () => {
    const signal = new AbortController().signal;
    const report = await world.controlPlane.planModel("new", { source, running: true }, signal);
    expect(report.operations.map(({ operation }) => operation)).toEqual([
      "resolveSource",
      "downloadFiles",
      "inspectFile",
      "loadModel",
    ]);
    expect(world.models.calls).toEqual([]);
  });
});

test("a dry run of a repeated download shows that the source is resolved and the files are verified again", async () => {
  world.applyModel("small", { source });
  await world.waitForModelPhase("small", "ready");
  const { resource } = world.store.apply({
    kind: "Model",
    name: "small",
    manager: "api",
    actor: { name: "test" },
    mode: "merge",
    spec: {},
    annotations: { [RETRIED_AT_ANNOTATION]: "2030-01-01T00:00:09.000Z" },
    dryRun: true,
  });
  const signal = new AbortController().signal;
  const { operations } = await world.controlPlane.planModel("small", undefined, signal, [
    { resource },
  ]);
  expect(operations.map(({ operation }) => operation)).toEqual(["resolveSource", "verifyFiles"]);
});

describe("failures", () => {
  test("a missing repository is not retried until the spec changes", async () => {
    world.applyModel("small", { source: "org/nowhere" });
    await world.waitForModelPhase("small", "failed");
    expect(world.modelCondition("small", "Stalled")).toMatchObject({
      status: "True",
      reason: "SourceNotFound",
    });
    await world.clock.advance(10 * 60_000);
    expect(count("resolve")).toBe(1);
    world.applyModel("small", { source });
    await world.waitForModelPhase("small", "ready");
  });

  test("an unreachable hub is retried with growing delays", async () => {
    for (let time = 0; time < 3; time += 1)
      world.models.resolveErrors.push(new BerthError("hub_unreachable", "no answer"));
    world.applyModel("small", { source });
    await world.clock.until(
      () => world.modelCondition("small", "Ready")?.reason === "SourceUnreachable",
      60_000,
      "it says so",
    );
    await world.waitForModelPhase("small", "ready");
    expect(count("resolve")).toBe(4);
  });

  test("a retry is as late as the hub requests", async () => {
    world.models.resolveErrors.push(
      new BerthError("hub_unreachable", "too many requests", { details: { retryAfterMs: 90_000 } }),
    );
    world.applyModel("small", { source });
    await world.clock.advance(80_000);
    expect(count("resolve")).toBe(1);
    expect(world.model("small")?.status?.nextRetryAt).toBe("2030-01-01T00:01:30.000Z");
    await world.waitForModelPhase("small", "ready");
  });

  test("an interrupted download is resumed", async () => {
    world.applyModel("small", { source });
    await world.clock.until(
      () => (world.models.disk.get(keyOf())?.done ?? 0) >= 500,
      60_000,
      "half",
    );
    world.models.downloadErrors.push(new BerthError("hub_unreachable", "cut"));
    await world.waitForModelPhase("small", "ready");
    expect(world.models.calls).toContain(`download ${keyOf()} from 500`);
  });

  test("a file with a wrong digest is downloaded three times at most", async () => {
    for (let time = 0; time < 3; time += 1)
      world.models.downloadErrors.push(new BerthError("digest_mismatch", "another file came"));
    world.applyModel("small", { source });
    await world.waitForModelPhase("small", "failed");
    expect(count("download")).toBe(3);
    world.applyModel("small", { source }, { [RETRIED_AT_ANNOTATION]: "2030-01-01T00:00:09.000Z" });
    await world.waitForModelPhase("small", "ready");
  });

  test("a missing credential is named in the status, and used once it exists", async () => {
    world.applyModel("small", { source, credential: "hub" });
    await world.clock.until(
      () => world.modelCondition("small", "Accepted")?.status === "False",
      60_000,
      "it is refused",
    );
    expect(count("resolve")).toBe(0);
    world.store.apply({
      kind: "Secret",
      name: "hub",
      manager: "api",
      actor: { name: "test" },
      mode: "replace",
      spec: { data: { token: "hf_x" } },
    });
    await world.waitForModelPhase("small", "ready");
    expect(world.models.calls).toContain("resolve org/small hf_x");
  });

  test("a failed load is retried, until the engine's fifth crash", async () => {
    for (let time = 0; time < 5; time += 1)
      world.models.loadErrors.push(new BerthError("engine_error", "it crashed"));
    world.applyModel("small", { source, running: true });
    await world.waitForModelPhase("small", "failed");
    expect(count("load small")).toBe(5);
    world.applyModel("small", { source }, { [RETRIED_AT_ANNOTATION]: "2030-01-01T00:00:09.000Z" });
    await world.waitForModelPhase("small", "running");
  });

  test("without an assistant the files are downloaded, and Ready is unknown", async () => {
    world.models.isReachable = false;
    world.applyModel("small", { source, running: true });
    await world.waitForModelPhase("small", "ready");
    expect(world.modelCondition("small", "Ready")).toMatchObject({
      status: "Unknown",
      reason: "AssistantUnreachable",
    });
    world.models.isReachable = true;
    await world.waitForModelPhase("small", "running");
  });

  test("a restarted assistant loads its models again", async () => {
    world.applyModel("small", { source, running: true });
    await world.waitForModelPhase("small", "running");
    world.models.restartAssistant();
    await world.clock.until(() => count("load small") === 2, 60_000, "it is loaded again");
    await world.waitForModelPhase("small", "running");
    expect([...world.models.resident.keys()]).toEqual(["small"]);
  });

  test("a crashed model is reloaded by the assistant, not by the reconciler", async () => {
    world.applyModel("small", { source, running: true });
    await world.waitForModelPhase("small", "running");
    const model = world.models.resident.get("small");
    if (!model) throw new Error("it is not resident");
    const error = { code: "engine_failed", message: "the engine of model small ended" };
    world.models.resident.set("small", {
      ...model,
      state: "failed",
      memoryBytes: null,
      error,
      recovering: true,
    });
    await world.waitForModelPhase("small", "starting");
    expect(world.modelCondition("small", "Ready")?.message).toContain("ended");
    await world.clock.advance(60_000);
    expect(count("load small")).toBe(1);
    world.models.resident.set("small", model);
    await world.waitForModelPhase("small", "running");
  });
});

test("the previous model serves while a new source is downloaded, also after a restart of the assistant", async () => {
  world.applyModel("small", { source, running: true });
  await world.waitForModelPhase("small", "running");
  const before = world.models.resident.get("small")?.path;
  world.models.downloadMs = 3_600_000;
  world.applyModel("small", { source: "org/large" });
  await world.clock.until(() => count("download") === 2, 60_000, "the other download begins");
  world.models.restartAssistant();
  await world.clock.until(
    () => world.models.resident.get("small")?.state === "resident",
    60_000,
    "it is there again",
  );
  expect(world.models.resident.get("small")?.path).toBe(before);
  expect(world.modelCondition("small", "Ready")?.status).toBe("False");
  world.models.downloadMs = 10_000;
  await world.clock.until(
    () => world.modelCondition("small", "Ready")?.status === "True",
    7_200_000,
    "the new one answers",
  );
  expect(world.models.resident.get("small")?.path).not.toBe(before);
  expect(world.model("small")?.status?.memory.replaced).toBeNull();
});

test("a source without a commit is resolved again after its digest has changed", async () => {
  world.models.repositories.set("org/loose", { ...small, commit: null });
  world.models.downloadErrors.push(new BerthError("digest_mismatch", "another size"));
  world.applyModel("small", { source: "org/loose" });
  await world.waitForModelPhase("small", "ready");
  expect(count("resolve")).toBe(2);
  for (let time = 0; time < 9; time += 1)
    world.models.downloadErrors.push(new BerthError("digest_mismatch", "another size"));
  world.models.disk.clear();
  world.applyModel("other", { source: "org/loose" });
  await world.waitForModelPhase("other", "failed");
  // Three attempts with as many resolutions: a wrong server is not asked without end.
  expect(count("resolve")).toBeLessThan(7);
});

test("a name that another model still has is not claimed", async () => {
  world.applyModel("one", { source, running: true });
  await world.waitForModelPhase("one", "running");
  world.models.downloadMs = 3_600_000;
  world.applyModel("one", { source: "org/large" });
  world.applyModel("two", { source, running: true });
  await world.waitForModelPhase("two", "running");
  expect(world.models.resident.get("one")?.aliases).toContain(source);
  expect(world.models.resident.get("two")?.aliases).not.toContain(source);
});

describe("memory", () => {
  test("a second model that does not fit stays on the disk, and is loaded when the first is stopped", async () => {
    world.applyModel("small", { source, running: true });
    await world.waitForModelPhase("small", "running");
    world.applyModel("large", { source: "org/large", running: true });
    await world.waitForModelPhase("large", "ready");
    expect(world.modelCondition("large", "Ready")).toMatchObject({
      status: "False",
      reason: "InsufficientMemory",
      message: expect.stringContaining("100 B are missing"),
    });
    world.applyModel("small", { source, running: false });
    await world.waitForModelPhase("large", "running");
  });

  test("a model that a user starts replaces another one, which is loaded again afterwards", async () => {
    world.applyModel("small", { source, running: true });
    await world.waitForModelPhase("small", "running");
    world.applyModel(
      "large",
      { source: "org/large", running: true },
      { [STARTED_AT_ANNOTATION]: "2030-01-01T01:00:00.000Z" },
    );
    await world.waitForModelPhase("large", "running");
    expect(world.model("small")?.status?.phase).toBe("ready");
    expect([...world.models.resident.keys()]).toEqual(["large"]);
    await world.clock.advance(5 * 60_000);
    expect(count("load small")).toBe(1);
    world.applyModel("large", { source: "org/large", running: false });
    await world.waitForModelPhase("small", "running");
  });

  test("two models that fit run concurrently", async () => {
    world.models.memoryBytesMax = 1_100;
    world.applyModel("small", { source, running: true });
    world.applyModel("large", { source: "org/large", running: true });
    await world.waitForModelPhase("small", "running");
    await world.waitForModelPhase("large", "running");
    expect([...world.models.resident.keys()].toSorted()).toEqual(["large", "small"]);
  });
});

describe("a user's requests", () => {
  test("a repeated download resolves the source again, and verifies the files", async () => {
    world.applyModel("small", { source });
    await world.waitForModelPhase("small", "ready");
    world.applyModel("small", { source }, { [RETRIED_AT_ANNOTATION]: "2030-01-01T00:00:09.000Z" });
    await world.clock.until(() => count("verify") === 1, 60_000, "it is compared");
    await world.waitForModelPhase("small", "ready");
    expect(count("resolve")).toBe(2);
    expect(count("download")).toBe(1);
  });

  test("damaged files are downloaded again", async () => {
    world.applyModel("small", { source });
    await world.waitForModelPhase("small", "ready");
    world.models.damaged.add(keyOf());
    world.applyModel("small", { source }, { [RETRIED_AT_ANNOTATION]: "2030-01-01T00:00:09.000Z" });
    await world.clock.until(() => count("download") === 2, 60_000, "it is fetched again");
    await world.waitForModelPhase("small", "ready");
    expect(world.models.damaged.size).toBe(0);
  });

  test("an unreachable hub does not affect stored files", async () => {
    world.applyModel("small", { source, running: true });
    await world.waitForModelPhase("small", "running");
    world.models.resolveErrors.push(new BerthError("hub_unreachable", "no answer"));
    world.applyModel("small", { source }, { [RETRIED_AT_ANNOTATION]: "2030-01-01T00:00:09.000Z" });
    await world.clock.until(() => count("verify") === 1, 60_000, "it is compared");
    await world.waitForModelPhase("small", "running");
    expect(events()).toContain("SourceUnreachable");
  });

  test("a model is stopped during a load, or deleted during a download", async () => {
    world.models.loadMs = 60_000;
    world.applyModel("small", { source, running: true });
    await world.waitForModelPhase("small", "starting");
    world.applyModel("small", { source, running: false });
    await world.waitForModelPhase("small", "ready");
    expect(world.models.resident.size).toBe(0);
    world.applyModel("large", { source: "org/large" });
    await world.waitForModelPhase("large", "downloading");
    world.store.delete("Model", "large", { actor: { name: "test" }, manager: "api" });
    await world.clock.until(() => world.model("large") === undefined, 60_000, "it is gone");
    await world.clock.advance(60_000);
    expect(count("download")).toBe(2);
  });

  test("a deletion unloads the model; its files are removed if requested", async () => {
    world.applyModel("small", { source, running: true });
    await world.waitForModelPhase("small", "running");
    world.store.delete("Model", "small", { actor: { name: "test" }, manager: "api" });
    await world.clock.until(() => world.model("small") === undefined, 60_000, "it is gone");
    expect(world.models.resident.size).toBe(0);
    expect(world.models.disk.has(keyOf())).toBe(true);
    world.applyModel("small", { source }, { [FILE_POLICY_ANNOTATION]: "delete" });
    await world.waitForModelPhase("small", "ready");
    expect(count("download")).toBe(1);
    world.store.delete("Model", "small", { actor: { name: "test" }, manager: "api" });
    await world.clock.until(() => world.model("small") === undefined, 60_000, "it is gone");
    expect(world.models.disk.has(keyOf())).toBe(false);
  });
});

describe("kill -9", () => {
  test.each(Array.from({ length: 24 }, (_, index) => index * 500 + 250))(
    "after %i ms, and the next run reaches the desired state",
    async (ms) => {
      world.applyModel("small", { source, running: true });
      await world.clock.advance(ms);
      const there = world.models.disk.get(keyOf())?.done ?? 0;
      await world.kill();
      world.models.calls.length = 0;
      world.boot();
      await world.waitForModelPhase("small", "running");
      expect([...world.models.resident.keys()]).toEqual(["small"]);
      // The downloaded bytes are not downloaded again.
      const downloads = world.models.calls.filter((call) => call.startsWith("download"));
      expect(downloads).toEqual(there < small.bytes ? [`download ${keyOf()} from ${there}`] : []);
    },
  );
});
