import { beforeEach, describe, expect, test } from "vitest";
import { BerthError } from "../../../../src/base/errors.ts";
import { MODEL_FINALIZER, RETRIED_AT_ANNOTATION } from "../../../../src/resources/resource.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";
import { createResolvedModel } from "../../../support/fake-models.ts";
import { applyResource } from "../../../support/test-store.ts";

const small = { commit: "c1".repeat(20), bytes: 1_000, memoryBytes: 400, quantization: "Q4_K_M" };
const large = { commit: "d2".repeat(20), bytes: 5_000, memoryBytes: 700 };
const source = "org/small";

let harness: ControlPlaneHarness;

beforeEach(() => {
  harness = new ControlPlaneHarness();
  harness.models.repositories.set(source, small).set("org/large", large);
  harness.boot();
  return () => harness[Symbol.asyncDispose]();
});

const count = (call: string) => harness.models.calls.filter((made) => made.startsWith(call)).length;
const unreachable = (retryAfterMs?: number) =>
  new BerthError("hub_unreachable", "no answer", {
    details: retryAfterMs === undefined ? undefined : { retryAfterMs },
  });
const untilUnreachable = (name: string) =>
  harness.clock.until(
    () => harness.modelCondition(name, "Ready")?.reason === "SourceUnreachable",
    60_000,
    "it says so",
  );
const setSecret = (token: string) =>
  applyResource(harness.store, "Secret", "hub", { data: { token } });

describe("the retry delay of a model ends", () => {
  test("when the spec changes", async () => {
    harness.models.resolveErrors.push(unreachable(3_000_000));
    harness.applyModel("small", { source });
    await untilUnreachable("small");
    harness.applyModel("small", { source: "org/large" });
    await harness.waitForModelPhase("small", "ready", 120_000);
    expect(count("resolve")).toBe(2);
  });

  test("when the credential changes", async () => {
    setSecret("hf_old");
    harness.models.resolveErrors.push(unreachable(3_000_000));
    harness.applyModel("small", { source, credential: "hub" });
    await untilUnreachable("small");
    setSecret("hf_new");
    await harness.waitForModelPhase("small", "ready", 120_000);
    expect(harness.models.calls).toContain("resolve org/small hf_new");
  });

  test("after at most an hour, even if the hub requests a longer delay", async () => {
    harness.models.resolveErrors.push(unreachable(999_999_999_000));
    harness.applyModel("small", { source });
    await untilUnreachable("small");
    expect(harness.model("small")?.status?.nextRetryAt).toBe("2030-01-01T01:00:00.000Z");
  });

  test("no earlier than Berth's own back-off if the hub requests no delay", async () => {
    for (let time = 0; time < 100; time += 1) harness.models.resolveErrors.push(unreachable(0));
    harness.applyModel("small", { source });
    await harness.clock.advance(1_000);
    expect(count("resolve")).toBeLessThanOrEqual(3);
  });

  test("at once if the clock was set back after the failure", async () => {
    harness.models.resolveErrors.push(unreachable());
    harness.applyModel("small", { source });
    await untilUnreachable("small");
    const model = harness.model("small");
    const failure = model?.status?.memory.failure;
    if (!model?.status || !failure) throw new Error("it has not failed");
    const retryAt = failure.retryAt + 10 * 365 * 24 * 3_600_000;
    const memory = { ...model.status.memory, failure: { ...failure, retryAt } };
    harness.store.setStatus("Model", "small", model.metadata.uid, { ...model.status, memory });
    await harness.kill();
    harness.boot();
    await harness.waitForModelPhase("small", "ready", 60_000);
    expect(count("resolve")).toBe(2);
  });
});

describe("an edit of a model's source", () => {
  test("removes the files of the old source from the status, even if the new source cannot be resolved", async () => {
    harness.applyModel("small", { source });
    await harness.waitForModelPhase("small", "ready");
    for (let time = 0; time < 20; time += 1) harness.models.resolveErrors.push(unreachable());
    harness.applyModel("small", { source: "org/large" });
    await untilUnreachable("small");
    expect(harness.modelCondition("small", "Downloaded")?.status).toBe("False");
    expect(harness.model("small")?.status).toMatchObject({
      phase: "failed",
      files: [],
      commit: null,
      downloadedBytes: 0,
    });
  });

  test("that is reverted clears the failure of the new source", async () => {
    harness.applyModel("small", { source });
    await harness.waitForModelPhase("small", "ready");
    for (let time = 0; time < 20; time += 1) harness.models.resolveErrors.push(unreachable());
    harness.applyModel("small", { source: "org/large" });
    await untilUnreachable("small");
    harness.applyModel("small", { source });
    await harness.waitForModelPhase("small", "ready", 60_000);
    expect(harness.modelCondition("small", "Ready")?.status).toBe("True");
    expect(harness.model("small")?.status?.nextRetryAt).toBeNull();
    expect(count("download")).toBe(1);
  });

  test("is not blocked, in the plan of a dry run, by the failure of the old source", async () => {
    harness.applyModel("small", { source: "org/nowhere" });
    await harness.waitForModelPhase("small", "failed");
    const signal = new AbortController().signal;
    const same = await harness.controlPlane.planModel("small", undefined, signal);
    expect(same.blockedBy).toContain("org/nowhere");
    const edited = await harness.controlPlane.planModel("small", { source }, signal);
    expect(edited.blockedBy).toBeNull();
  });
});

describe("the credential for a model's source", () => {
  beforeEach(async () => {
    setSecret("hf_x");
    harness.applyModel("small", { source, credential: "hub", running: true });
    await harness.waitForModelPhase("small", "running");
    harness.store.delete("Secret", "hub", { actor: { name: "test" }, manager: "api", force: true });
  });

  test("is not needed to load a file on the disk", async () => {
    harness.models.restartAssistant();
    await harness.clock.until(() => count("load small") === 2, 60_000, "it is loaded again");
    await harness.waitForModelPhase("small", "running");
    expect(harness.modelCondition("small", "Accepted")?.reason).toBe("SecretNotFound");
  });

  test("is needed to resolve the source", async () => {
    harness.applyModel(
      "small",
      { source },
      { [RETRIED_AT_ANNOTATION]: "2030-01-01T00:00:09.000Z" },
    );
    harness.applyModel("other", { source: "org/large", credential: "hub" });
    await harness.clock.advance(60_000);
    expect(count("resolve")).toBe(1);
    expect(harness.model("other")?.status?.phase).toBe("absent");
  });
});

const crash = (recovering: boolean) => {
  const model = harness.models.resident.get("small");
  if (!model) throw new Error("the assistant does not know it");
  const error = { code: "engine_failed", message: "the engine of model small ended" };
  const gone = { state: "failed", memoryBytes: null, error, recovering } as const;
  harness.models.resident.set("small", { ...model, ...gone });
  return model;
};
const crashes = () =>
  harness.store.events
    .list({ kind: "Model", name: "small", limit: 50 })
    .filter(({ reason }) => reason === "Crashed")
    .reduce((sum, { count: times }) => sum + times, 0);

test("a token's final newline is ignored, and an invalid token is refused", async () => {
  setSecret("hf_x\n");
  harness.applyModel("small", { source, credential: "hub" });
  await harness.waitForModelPhase("small", "ready");
  expect(harness.models.calls).toContain("resolve org/small hf_x");
  for (const token of [" \n", "hf x", "hf_\u0000", "hf_ü"]) {
    setSecret(token);
    await harness.clock.until(
      () => harness.modelCondition("small", "Accepted")?.reason === "TokenUnusable",
      60_000,
      "it is refused",
    );
    setSecret("hf_right");
    await harness.clock.until(
      () => harness.modelCondition("small", "Accepted")?.status === "True",
      60_000,
      "it is taken",
    );
  }
});

describe("a model that crashes", () => {
  beforeEach(async () => {
    harness.applyModel("small", { source, running: true });
    await harness.waitForModelPhase("small", "running");
  });

  test("causes an event at each crash", async () => {
    for (const times of [1, 2]) {
      const model = crash(true);
      await harness.waitForModelPhase("small", "starting");
      await harness.clock.advance(60_000);
      expect(crashes()).toBe(times);
      harness.models.resident.set("small", { ...model, state: "resident", error: null });
      await harness.waitForModelPhase("small", "running");
    }
  });

  test("is loaded again as soon as the assistant stops retrying", async () => {
    crash(true);
    await harness.waitForModelPhase("small", "starting");
    crash(false);
    await harness.clock.until(() => count("load small") === 2, 5_000, "it is loaded again");
    await harness.waitForModelPhase("small", "running");
    expect(harness.modelCondition("small", "Ready")?.status).toBe("True");
  });
});

test("a queued download reports when it has started", async () => {
  harness.models.downloadMs = 20_000;
  const names = ["a", "b", "c"];
  for (const name of names) {
    harness.models.repositories.set(`org/${name}`, small);
    harness.applyModel(name, { source: `org/${name}` });
  }
  const reasonOf = (name: string) => harness.modelCondition(name, "Ready")?.reason;
  await harness.clock.until(
    () => names.some((name) => reasonOf(name) === "WaitingForDownload"),
    10_000,
    "two at once",
  );
  const waiting = names.find((name) => reasonOf(name) === "WaitingForDownload") ?? "";
  await harness.clock.until(() => count("download") === 3, 30_000, "its turn has come");
  await harness.clock.advance(3_000);
  expect(reasonOf(waiting)).toBe("Downloading");
});

const isOut = () =>
  harness.clock.until(() => harness.models.resident.size === 0, 60_000, "it is out of memory");

describe("a model without a Model resource is unloaded", () => {
  test("after the restore of a store that lacks the Model", async () => {
    harness.applyModel("small", { source, running: true });
    await harness.waitForModelPhase("small", "running");
    const model = harness.models.resident.get("small");
    if (!model) throw new Error("it is not resident");
    await harness.kill();
    harness.models.resident.clear();
    harness.models.resident.set("forgotten", { ...model, id: "forgotten" });
    harness.boot();
    harness.applyModel("small", { source, running: false });
    await isOut();
    expect(harness.models.calls).toContain("unload forgotten");
  });

  test("after a deletion without a finalizer, as in older stores", async () => {
    harness.applyModel("small", { source, running: true });
    await harness.waitForModelPhase("small", "running");
    harness.store.removeFinalizer("Model", "small", MODEL_FINALIZER);
    harness.store.delete("Model", "small", { actor: { name: "test" }, manager: "api" });
    expect(harness.model("small")).toBeUndefined();
    await isOut();
    expect(count("unload small")).toBe(1);
  });

  test("but not from an assistant that Berth did not start, or if the model was loaded on demand", async () => {
    harness.applyModel("small", { source, running: true });
    await harness.waitForModelPhase("small", "running");
    const model = harness.models.resident.get("small");
    if (!model) throw new Error("it is not resident");
    harness.models.resident.set("theirs", { ...model, id: "theirs", pinned: false });
    await harness.clock.advance(70_000);
    harness.models.daemonState = "foreign";
    harness.models.resident.set("kept", { ...model, id: "kept" });
    await harness.clock.advance(70_000);
    expect([...harness.models.resident.keys()]).toEqual(["small", "theirs", "kept"]);
    harness.models.daemonState = "up";
    await harness.clock.advance(70_000);
    expect([...harness.models.resident.keys()]).toEqual(["small", "theirs"]);
  });
});

test("files of another Model are kept, even if their removal was requested", async () => {
  harness.applyModel("one", { source });
  harness.applyModel("two", { source });
  await harness.waitForModelPhase("one", "ready");
  await harness.waitForModelPhase("two", "ready");
  const remove = async (name: string) => {
    harness.store.delete("Model", name, {
      actor: { name: "test" },
      manager: "api",
      deleteFiles: true,
    });
    await harness.clock.until(() => harness.model(name) === undefined, 60_000, "it is gone");
  };
  await remove("one");
  await harness.clock.advance(70_000);
  expect(harness.model("two")?.status?.phase).toBe("ready");
  expect(count("download")).toBe(2);
  expect(harness.models.disk.size).toBe(1);
  await remove("two");
  expect(harness.models.disk.size).toBe(0);
});

test("a loaded model is loaded again after a restart while its new source is being downloaded", async () => {
  harness.models.isShortOfDisk = true;
  harness.models.downloadMs = 600_000;
  harness.models.disk.set(createResolvedModel(source, small).key, { done: 1_000, total: 1_000 });
  harness.models.repositories.set("org/other", { ...small, commit: "e3".repeat(20) });
  harness.applyModel("small", { source, running: true });
  await harness.waitForModelPhase("small", "running");
  harness.applyModel("small", { source: "org/large" });
  await harness.clock.until(() => count("download") === 1, 60_000, "the new one is on its way");
  harness.applyModel("other", { source: "org/other" });
  await harness.waitForModelPhase("other", "ready", 900_000);
  const keyOf = (id: string) =>
    createResolvedModel(id, harness.models.repositories.get(id) ?? small).key;
  expect(harness.models.disk.has(keyOf(source))).toBe(true);
  await harness.clock.until(() => count("load small") === 2, 900_000, "they are exchanged");
  await harness.waitForModelPhase("small", "running");
  harness.applyModel("another", { source: "org/other" });
  await harness.waitForModelPhase("another", "ready");
  harness.store.delete("Model", "other", { actor: { name: "test" }, manager: "api" });
  await harness.clock.until(() => !harness.models.disk.has(keyOf(source)), 60_000, "it makes room");
  expect([...harness.models.disk.keys()].toSorted()).toEqual(
    [keyOf("org/large"), keyOf("org/other")].toSorted(),
  );
});

test("a deletion waits while the assistant does not respond, but not if the assistant has exited", async () => {
  harness.applyModel("small", { source, running: true });
  await harness.waitForModelPhase("small", "running");
  harness.models.isReachable = false;
  harness.store.delete("Model", "small", { actor: { name: "test" }, manager: "api" });
  await harness.clock.advance(60_000);
  expect(harness.model("small")?.status?.phase).toBe("deleting");
  harness.models.isReachable = true;
  await harness.clock.until(() => harness.model("small") === undefined, 60_000, "it is gone");
  expect(harness.models.resident.size).toBe(0);
  harness.applyModel("small", { source, running: true });
  await harness.waitForModelPhase("small", "running");
  harness.models.isReachable = false;
  harness.models.daemonState = "waiting";
  harness.store.delete("Model", "small", { actor: { name: "test" }, manager: "api" });
  await harness.clock.until(() => harness.model("small") === undefined, 5_000, "it is gone");
});
