import { beforeEach, describe, expect, test } from "vitest";
import { BerthError } from "../../../../src/base/errors.ts";
import {
  FILE_POLICY_ANNOTATION,
  RETRIED_AT_ANNOTATION,
  STARTED_AT_ANNOTATION,
} from "../../../../src/resources/resource.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";
import { createResolvedModel } from "../../../support/fake-models.ts";
import { applyResource } from "../../../support/test-store.ts";

const small = { commit: "c1".repeat(20), bytes: 1_000, memoryBytes: 400, quantization: "Q4_K_M" };
const large = { commit: "d2".repeat(20), bytes: 5_000, memoryBytes: 700 };
const source = "org/small";
const keyOf = () => createResolvedModel(source, small).key;

let harness: ControlPlaneHarness;

beforeEach(() => {
  harness = new ControlPlaneHarness();
  harness.models.repositories.set(source, small).set("org/large", large);
  harness.boot();
  return () => harness[Symbol.asyncDispose]();
});

const count = (call: string) => harness.models.calls.filter((made) => made.startsWith(call)).length;
const events = () =>
  harness.store.events.list({ kind: "Model", limit: 50 }).map(({ reason }) => reason);

describe("the steps of a Model", () => {
  test("resolve, download and verify its files, and do not load it until it should run", async () => {
    harness.applyModel("small", { source });
    await harness.waitForModelPhase("small", "downloading");
    await harness.waitForModelPhase("small", "ready");
    const status = harness.model("small")?.status;
    expect(status).toMatchObject({
      commit: small.commit,
      sizeBytes: 1_000,
      downloadedBytes: 1_000,
      loaded: null,
    });
    expect(harness.modelCondition("small", "Ready")).toMatchObject({
      status: "True",
      reason: "OnDisk",
    });
    expect(count("load")).toBe(0);
    expect(events().toReversed()).toEqual(["Resolved", "Downloaded"]);
  });

  test("load a Model under its own name if the Model should run", async () => {
    harness.applyModel("small", { source, running: true, contextSize: 2_048 });
    await harness.waitForModelPhase("small", "starting");
    await harness.waitForModelPhase("small", "running");
    expect(harness.model("small")?.status).toMatchObject({
      loaded: { memoryBytes: 400, contextTokens: 2_048 },
      facts: { kind: "chat", memoryBytes: { least: 400 } },
    });
    expect(harness.modelCondition("small", "Ready")).toMatchObject({ status: "True" });
    harness.applyModel("small", { source, running: false });
    await harness.waitForModelPhase("small", "stopping");
    await harness.waitForModelPhase("small", "ready");
    expect(harness.models.resident.size).toBe(0);
  });

  test("report the progress of a download in the status", async () => {
    harness.applyModel("small", { source });
    await harness.clock.until(
      () => (harness.model("small")?.status?.downloadedBytes ?? 0) >= 500,
      60_000,
      "half is there",
    );
    expect(harness.model("small")?.status?.downloadedBytes).toBeLessThan(1_000);
    expect(harness.controlPlane.modelProgress("small")).toMatchObject({
      step: "downloading",
      totalBytes: 1_000,
      bytesPerSecond: 100,
    });
    expect(harness.modelCondition("small", "Ready")?.message).toMatch(/\d+ % of/);
  });

  test("reload the model for new settings, and keep the loaded model for a new source until the new files are complete", async () => {
    harness.applyModel("small", { source, running: true });
    await harness.waitForModelPhase("small", "running");
    harness.applyModel("small", { source, contextSize: 1_024 });
    await harness.clock.until(
      () => harness.model("small")?.status?.loaded?.contextTokens === 1_024,
      60_000,
      "the new context",
    );
    expect(count("load")).toBe(2);
    const before = harness.models.resident.get("small")?.path;
    harness.applyModel("small", { source: "org/large" });
    await harness.clock.until(() => count("download") === 2, 60_000, "the other download begins");
    expect(harness.models.resident.get("small")?.path).toBe(before);
    expect(harness.model("small")?.status?.phase).toBe("running");
    expect(harness.modelCondition("small", "Ready")?.status).toBe("False");
    await harness.clock.until(
      () => harness.modelCondition("small", "Ready")?.status === "True",
      60_000,
      "the other one answers",
    );
    expect(harness.models.resident.get("small")?.path).not.toBe(before);
  });

  test("are absent from the plan of a Model that is in its desired state", async () => {
    harness.applyModel("small", { source, running: true });
    await harness.waitForModelPhase("small", "running");
    const signal = new AbortController().signal;
    const report = await harness.controlPlane.planModel("small", undefined, signal);
    expect(report).toMatchObject({ operations: [], changes: [], blockedBy: null });
    const calls = harness.models.calls.length;
    await harness.clock.advance(5 * 60_000);
    expect(harness.models.calls).toHaveLength(calls);
  });

  test("are all shown by a dry run, which executes none of them", async () => {
    const signal = new AbortController().signal;
    const report = await harness.controlPlane.planModel("new", { source, running: true }, signal);
    expect(report.operations.map(({ operation }) => operation)).toEqual([
      "resolveSource",
      "downloadFiles",
      "inspectFile",
      "loadModel",
    ]);
    expect(harness.models.calls).toEqual([]);
  });
});

test("a dry run of a repeated download shows that the source is resolved and the files are verified again", async () => {
  harness.applyModel("small", { source });
  await harness.waitForModelPhase("small", "ready");
  const { resource } = harness.store.apply({
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
  const { operations } = await harness.controlPlane.planModel("small", undefined, signal, [
    { resource },
  ]);
  expect(operations.map(({ operation }) => operation)).toEqual(["resolveSource", "verifyFiles"]);
});

describe("failures of the steps of a Model", () => {
  test("a missing repository is not tried again until the spec changes", async () => {
    harness.applyModel("small", { source: "org/nowhere" });
    await harness.waitForModelPhase("small", "failed");
    expect(harness.modelCondition("small", "Stalled")).toMatchObject({
      status: "True",
      reason: "SourceNotFound",
    });
    await harness.clock.advance(10 * 60_000);
    expect(count("resolve")).toBe(1);
    harness.applyModel("small", { source });
    await harness.waitForModelPhase("small", "ready");
  });

  test("an unreachable hub is tried again with growing delays", async () => {
    for (let time = 0; time < 3; time += 1)
      harness.models.resolveErrors.push(new BerthError("hub_unreachable", "no answer"));
    harness.applyModel("small", { source });
    await harness.clock.until(
      () => harness.modelCondition("small", "Ready")?.reason === "SourceUnreachable",
      60_000,
      "it says so",
    );
    expect(harness.model("small")?.status).toMatchObject({
      phase: "failed",
      nextRetryAt: expect.any(String),
    });
    await harness.waitForModelPhase("small", "ready");
    expect(count("resolve")).toBe(4);
  });

  test("the next try waits as long as the hub requests", async () => {
    harness.models.resolveErrors.push(
      new BerthError("hub_unreachable", "too many requests", { details: { retryAfterMs: 90_000 } }),
    );
    harness.applyModel("small", { source });
    await harness.clock.advance(80_000);
    expect(count("resolve")).toBe(1);
    expect(harness.model("small")?.status?.nextRetryAt).toBe("2030-01-01T00:01:30.000Z");
    await harness.waitForModelPhase("small", "ready");
  });

  test("an interrupted download is resumed", async () => {
    harness.applyModel("small", { source });
    await harness.clock.until(
      () => (harness.models.disk.get(keyOf())?.done ?? 0) >= 500,
      60_000,
      "half",
    );
    harness.models.downloadErrors.push(new BerthError("hub_unreachable", "cut"));
    await harness.waitForModelPhase("small", "ready");
    expect(harness.models.calls).toContain(`download ${keyOf()} from 500`);
  });

  test("a file with a wrong digest is downloaded at most three times", async () => {
    for (let time = 0; time < 3; time += 1)
      harness.models.downloadErrors.push(new BerthError("digest_mismatch", "another file came"));
    harness.applyModel("small", { source });
    await harness.clock.until(
      () => harness.modelCondition("small", "Stalled") !== undefined,
      60_000,
      "it is stalled",
    );
    expect(count("download")).toBe(3);
    harness.applyModel(
      "small",
      { source },
      { [RETRIED_AT_ANNOTATION]: "2030-01-01T00:00:09.000Z" },
    );
    await harness.waitForModelPhase("small", "ready");
  });

  test("a missing credential is named in the status, and is used as soon as it exists", async () => {
    harness.applyModel("small", { source, credential: "hub" });
    await harness.clock.until(
      () => harness.modelCondition("small", "Accepted")?.status === "False",
      60_000,
      "it is refused",
    );
    expect(count("resolve")).toBe(0);
    applyResource(harness.store, "Secret", "hub", { data: { token: "hf_x" } });
    await harness.waitForModelPhase("small", "ready");
    expect(harness.models.calls).toContain("resolve org/small hf_x");
  });

  test("a failed load is tried again, until the engine has crashed five times", async () => {
    for (let time = 0; time < 5; time += 1)
      harness.models.loadErrors.push(new BerthError("engine_error", "it crashed"));
    harness.applyModel("small", { source, running: true });
    await harness.waitForModelPhase("small", "failed");
    expect(count("load small")).toBe(5);
    harness.applyModel(
      "small",
      { source },
      { [RETRIED_AT_ANNOTATION]: "2030-01-01T00:00:09.000Z" },
    );
    await harness.waitForModelPhase("small", "running");
  });

  test("without an assistant, the files are downloaded and Ready is Unknown", async () => {
    harness.models.isReachable = false;
    harness.applyModel("small", { source, running: true });
    await harness.waitForModelPhase("small", "ready");
    expect(harness.modelCondition("small", "Ready")).toMatchObject({
      status: "Unknown",
      reason: "AssistantUnreachable",
    });
    harness.models.isReachable = true;
    await harness.waitForModelPhase("small", "running");
  });

  test("a restarted assistant loads its models again", async () => {
    harness.applyModel("small", { source, running: true });
    await harness.waitForModelPhase("small", "running");
    harness.models.restartAssistant();
    await harness.clock.until(() => count("load small") === 2, 60_000, "it is loaded again");
    await harness.waitForModelPhase("small", "running");
    expect([...harness.models.resident.keys()]).toEqual(["small"]);
  });

  test("a crashed model is reloaded by the assistant, not by the reconciler", async () => {
    harness.applyModel("small", { source, running: true });
    await harness.waitForModelPhase("small", "running");
    const model = harness.models.resident.get("small");
    if (!model) throw new Error("it is not resident");
    const error = { code: "engine_failed", message: "the engine of model small ended" };
    harness.models.resident.set("small", {
      ...model,
      state: "failed",
      memoryBytes: null,
      error,
      recovering: true,
    });
    await harness.waitForModelPhase("small", "starting");
    expect(harness.modelCondition("small", "Ready")?.message).toContain("ended");
    await harness.clock.advance(60_000);
    expect(count("load small")).toBe(1);
    harness.models.resident.set("small", model);
    await harness.waitForModelPhase("small", "running");
  });
});

test("the previous model serves requests while a new source is downloaded, even after a restart of the assistant", async () => {
  harness.applyModel("small", { source, running: true });
  await harness.waitForModelPhase("small", "running");
  const before = harness.models.resident.get("small")?.path;
  harness.models.downloadMs = 3_600_000;
  harness.applyModel("small", { source: "org/large" });
  await harness.clock.until(() => count("download") === 2, 60_000, "the other download begins");
  harness.models.restartAssistant();
  await harness.clock.until(
    () => harness.models.resident.get("small")?.state === "resident",
    60_000,
    "it is there again",
  );
  expect(harness.models.resident.get("small")?.path).toBe(before);
  expect(harness.modelCondition("small", "Ready")?.status).toBe("False");
  harness.models.downloadMs = 10_000;
  await harness.clock.until(
    () => harness.modelCondition("small", "Ready")?.status === "True",
    7_200_000,
    "the new one answers",
  );
  expect(harness.models.resident.get("small")?.path).not.toBe(before);
  expect(harness.model("small")?.status?.memory.replaced).toBeNull();
});

test("a source without a commit is resolved again after its digest has changed", async () => {
  harness.models.repositories.set("org/loose", { ...small, commit: null });
  harness.models.downloadErrors.push(new BerthError("digest_mismatch", "another size"));
  harness.applyModel("small", { source: "org/loose" });
  await harness.waitForModelPhase("small", "ready");
  expect(count("resolve")).toBe(2);
  for (let time = 0; time < 9; time += 1)
    harness.models.downloadErrors.push(new BerthError("digest_mismatch", "another size"));
  harness.models.disk.clear();
  harness.applyModel("other", { source: "org/loose" });
  await harness.waitForModelPhase("other", "failed");
  // After three attempts, Berth stops calling a server whose file has the wrong digest.
  expect(count("resolve")).toBeLessThan(7);
});

test("a Model does not claim a name under which another pinned model is still loaded", async () => {
  harness.applyModel("one", { source, running: true });
  await harness.waitForModelPhase("one", "running");
  harness.models.downloadMs = 3_600_000;
  harness.applyModel("one", { source: "org/large" });
  harness.applyModel("two", { source, running: true });
  await harness.waitForModelPhase("two", "running");
  expect(harness.models.resident.get("one")?.aliases).toContain(source);
  expect(harness.models.resident.get("two")?.aliases).not.toContain(source);
});

describe("memory for several models", () => {
  test("a second model that does not fit stays on the disk, and is loaded when the first is stopped", async () => {
    harness.applyModel("small", { source, running: true });
    await harness.waitForModelPhase("small", "running");
    harness.applyModel("large", { source: "org/large", running: true });
    await harness.waitForModelPhase("large", "ready");
    expect(harness.modelCondition("large", "Ready")).toMatchObject({
      status: "False",
      reason: "InsufficientMemory",
      message: expect.stringContaining("100 B are missing"),
    });
    harness.applyModel("small", { source, running: false });
    await harness.waitForModelPhase("large", "running");
  });

  test("a model that a user starts replaces another model, which is loaded again later", async () => {
    harness.applyModel("small", { source, running: true });
    await harness.waitForModelPhase("small", "running");
    harness.applyModel(
      "large",
      { source: "org/large", running: true },
      { [STARTED_AT_ANNOTATION]: "2030-01-01T01:00:00.000Z" },
    );
    await harness.waitForModelPhase("large", "running");
    expect(harness.model("small")?.status?.phase).toBe("ready");
    expect([...harness.models.resident.keys()]).toEqual(["large"]);
    await harness.clock.advance(5 * 60_000);
    expect(count("load small")).toBe(1);
    harness.applyModel("large", { source: "org/large", running: false });
    await harness.waitForModelPhase("small", "running");
  });

  test("two models that fit run concurrently", async () => {
    harness.models.memoryBytesMax = 1_100;
    harness.applyModel("small", { source, running: true });
    harness.applyModel("large", { source: "org/large", running: true });
    await harness.waitForModelPhase("small", "running");
    await harness.waitForModelPhase("large", "running");
    expect([...harness.models.resident.keys()].toSorted()).toEqual(["large", "small"]);
  });
});

describe("a user's request", () => {
  test("for another download resolves the source again, and verifies the files", async () => {
    harness.applyModel("small", { source });
    await harness.waitForModelPhase("small", "ready");
    harness.applyModel(
      "small",
      { source },
      { [RETRIED_AT_ANNOTATION]: "2030-01-01T00:00:09.000Z" },
    );
    await harness.clock.until(() => count("verify") === 1, 60_000, "it is compared");
    await harness.waitForModelPhase("small", "ready");
    expect(count("resolve")).toBe(2);
    expect(count("download")).toBe(1);
  });

  test("for another download replaces damaged files", async () => {
    harness.applyModel("small", { source });
    await harness.waitForModelPhase("small", "ready");
    harness.models.damaged.add(keyOf());
    harness.applyModel(
      "small",
      { source },
      { [RETRIED_AT_ANNOTATION]: "2030-01-01T00:00:09.000Z" },
    );
    await harness.clock.until(() => count("download") === 2, 60_000, "it is fetched again");
    await harness.waitForModelPhase("small", "ready");
    expect(harness.models.damaged.size).toBe(0);
  });

  test("succeeds for stored files while the hub is unreachable", async () => {
    harness.applyModel("small", { source, running: true });
    await harness.waitForModelPhase("small", "running");
    harness.models.resolveErrors.push(new BerthError("hub_unreachable", "no answer"));
    harness.applyModel(
      "small",
      { source },
      { [RETRIED_AT_ANNOTATION]: "2030-01-01T00:00:09.000Z" },
    );
    await harness.clock.until(() => count("verify") === 1, 60_000, "it is compared");
    await harness.waitForModelPhase("small", "running");
    expect(events()).toContain("SourceUnreachable");
  });

  test("can stop a model during a load, and delete a model during a download", async () => {
    harness.models.loadMs = 60_000;
    harness.applyModel("small", { source, running: true });
    await harness.waitForModelPhase("small", "starting");
    harness.applyModel("small", { source, running: false });
    await harness.waitForModelPhase("small", "ready");
    expect(harness.models.resident.size).toBe(0);
    harness.applyModel("large", { source: "org/large" });
    await harness.waitForModelPhase("large", "downloading");
    harness.store.delete("Model", "large", { actor: { name: "test" }, manager: "api" });
    await harness.clock.until(() => harness.model("large") === undefined, 60_000, "it is gone");
    await harness.clock.advance(60_000);
    expect(count("download")).toBe(2);
  });

  test("for a deletion unloads the model, and removes the files only if the user also asks for that", async () => {
    harness.applyModel("small", { source, running: true });
    await harness.waitForModelPhase("small", "running");
    harness.store.delete("Model", "small", { actor: { name: "test" }, manager: "api" });
    await harness.clock.until(() => harness.model("small") === undefined, 60_000, "it is gone");
    expect(harness.models.resident.size).toBe(0);
    expect(harness.models.disk.has(keyOf())).toBe(true);
    harness.applyModel("small", { source }, { [FILE_POLICY_ANNOTATION]: "delete" });
    await harness.waitForModelPhase("small", "ready");
    expect(count("download")).toBe(1);
    harness.store.delete("Model", "small", { actor: { name: "test" }, manager: "api" });
    await harness.clock.until(() => harness.model("small") === undefined, 60_000, "it is gone");
    expect(harness.models.disk.has(keyOf())).toBe(false);
  });
});

describe("a kill of Berth", () => {
  test.each(Array.from({ length: 24 }, (_, index) => index * 500 + 250))(
    "after %i ms does not prevent the next run from reaching the desired state",
    async (ms) => {
      harness.applyModel("small", { source, running: true });
      await harness.clock.advance(ms);
      const there = harness.models.disk.get(keyOf())?.done ?? 0;
      await harness.kill();
      harness.models.calls.length = 0;
      harness.boot();
      await harness.waitForModelPhase("small", "running");
      expect([...harness.models.resident.keys()]).toEqual(["small"]);
      // The bytes that were downloaded before the kill are not downloaded again.
      const downloads = harness.models.calls.filter((call) => call.startsWith("download"));
      expect(downloads).toEqual(there < small.bytes ? [`download ${keyOf()} from ${there}`] : []);
    },
  );
});
