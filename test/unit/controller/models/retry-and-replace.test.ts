import { beforeEach, describe, expect, test } from "vitest";
import { BerthError } from "../../../../src/base/errors.ts";
import { MODEL_FINALIZER, RETRIED_AT_ANNOTATION } from "../../../../src/resources/resource.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";
import { createResolvedModel } from "../../../support/fake-models.ts";

const small = { commit: "c1".repeat(20), bytes: 1_000, memoryBytes: 400, quantization: "Q4_K_M" };
const large = { commit: "d2".repeat(20), bytes: 5_000, memoryBytes: 700 };
const source = "org/small";

let world: ControlPlaneHarness;

beforeEach(() => {
  world = new ControlPlaneHarness();
  world.models.repositories.set(source, small).set("org/large", large);
  world.boot();
  return () => world[Symbol.asyncDispose]();
});

const count = (call: string) => world.models.calls.filter((made) => made.startsWith(call)).length;
const unreachable = (retryAfterMs?: number) =>
  new BerthError("hub_unreachable", "no answer", {
    details: retryAfterMs === undefined ? undefined : { retryAfterMs },
  });
const untilUnreachable = (name: string) =>
  world.clock.until(
    () => world.modelCondition(name, "Ready")?.reason === "SourceUnreachable",
    60_000,
    "it says so",
  );
const setSecret = (token: string) =>
  world.store.apply({
    kind: "Secret",
    name: "hub",
    manager: "api",
    actor: { name: "test" },
    mode: "replace",
    spec: { data: { token } },
  });

describe("a retry delay ends", () => {
  test("when the spec changes", async () => {
    world.models.resolveErrors.push(unreachable(3_000_000));
    world.applyModel("small", { source });
    await untilUnreachable("small");
    world.applyModel("small", { source: "org/large" });
    await world.waitForModelPhase("small", "ready", 120_000);
    expect(count("resolve")).toBe(2);
  });

  test("when the credential changes", async () => {
    setSecret("hf_old");
    world.models.resolveErrors.push(unreachable(3_000_000));
    world.applyModel("small", { source, credential: "hub" });
    await untilUnreachable("small");
    setSecret("hf_new");
    await world.waitForModelPhase("small", "ready", 120_000);
    expect(world.models.calls).toContain("resolve org/small hf_new");
  });

  test("after an hour, whatever the hub requests", async () => {
    world.models.resolveErrors.push(unreachable(999_999_999_000));
    world.applyModel("small", { source });
    await untilUnreachable("small");
    expect(world.model("small")?.status?.nextRetryAt).toBe("2030-01-01T01:00:00.000Z");
  });

  test("no earlier than Berth's own back-off if the hub requests none", async () => {
    for (let time = 0; time < 100; time += 1) world.models.resolveErrors.push(unreachable(0));
    world.applyModel("small", { source });
    await world.clock.advance(1_000);
    expect(count("resolve")).toBeLessThanOrEqual(3);
  });

  test("at once if the clock was set back since", async () => {
    world.models.resolveErrors.push(unreachable());
    world.applyModel("small", { source });
    await untilUnreachable("small");
    const model = world.model("small");
    const failure = model?.status?.memory.failure;
    if (!model?.status || !failure) throw new Error("it has not failed");
    const retryAt = failure.retryAt + 10 * 365 * 24 * 3_600_000;
    const memory = { ...model.status.memory, failure: { ...failure, retryAt } };
    world.store.setStatus("Model", "small", model.metadata.uid, { ...model.status, memory });
    await world.kill();
    world.boot();
    await world.waitForModelPhase("small", "ready", 60_000);
    expect(count("resolve")).toBe(2);
  });
});

describe("an edit of the source", () => {
  test("is not satisfied by the files of the old source", async () => {
    world.applyModel("small", { source });
    await world.waitForModelPhase("small", "ready");
    for (let time = 0; time < 20; time += 1) world.models.resolveErrors.push(unreachable());
    world.applyModel("small", { source: "org/large" });
    await untilUnreachable("small");
    expect(world.modelCondition("small", "Downloaded")?.status).toBe("False");
    expect(world.model("small")?.status).toMatchObject({
      phase: "absent",
      files: [],
      commit: null,
      downloadedBytes: 0,
    });
  });

  test("that is reverted clears its failure", async () => {
    world.applyModel("small", { source });
    await world.waitForModelPhase("small", "ready");
    for (let time = 0; time < 20; time += 1) world.models.resolveErrors.push(unreachable());
    world.applyModel("small", { source: "org/large" });
    await untilUnreachable("small");
    world.applyModel("small", { source });
    await world.waitForModelPhase("small", "ready", 60_000);
    expect(world.modelCondition("small", "Ready")?.status).toBe("True");
    expect(world.model("small")?.status?.nextRetryAt).toBeNull();
    expect(count("download")).toBe(1);
  });

  test("of a failed model is not shown as blocked by the failure in a dry run", async () => {
    world.applyModel("small", { source: "org/nowhere" });
    await world.waitForModelPhase("small", "failed");
    const signal = new AbortController().signal;
    const same = await world.controlPlane.planModel("small", undefined, signal);
    expect(same.blockedBy).toContain("org/nowhere");
    const edited = await world.controlPlane.planModel("small", { source }, signal);
    expect(edited.blockedBy).toBeNull();
  });
});

describe("the credential", () => {
  beforeEach(async () => {
    setSecret("hf_x");
    world.applyModel("small", { source, credential: "hub", running: true });
    await world.waitForModelPhase("small", "running");
    world.store.delete("Secret", "hub", { actor: { name: "test" }, manager: "api", force: true });
  });

  test("is not needed to load a file on the disk", async () => {
    world.models.restartAssistant();
    await world.clock.until(() => count("load small") === 2, 60_000, "it is loaded again");
    await world.waitForModelPhase("small", "running");
    expect(world.modelCondition("small", "Accepted")?.reason).toBe("SecretNotFound");
  });

  test("is needed to resolve the source", async () => {
    world.applyModel("small", { source }, { [RETRIED_AT_ANNOTATION]: "2030-01-01T00:00:09.000Z" });
    world.applyModel("other", { source: "org/large", credential: "hub" });
    await world.clock.advance(60_000);
    expect(count("resolve")).toBe(1);
    expect(world.model("other")?.status?.phase).toBe("absent");
  });
});

const crash = (recovering: boolean) => {
  const model = world.models.resident.get("small");
  if (!model) throw new Error("the assistant does not know it");
  const error = { code: "engine_failed", message: "the engine of model small ended" };
  const gone = { state: "failed", memoryBytes: null, error, recovering } as const;
  world.models.resident.set("small", { ...model, ...gone });
  return model;
};
const crashes = () =>
  world.store.events
    .list({ kind: "Model", name: "small", limit: 50 })
    .filter(({ reason }) => reason === "Crashed")
    .reduce((sum, { count: times }) => sum + times, 0);

test("a token's final newline is ignored, and an invalid token is refused", async () => {
  setSecret("hf_x\n");
  world.applyModel("small", { source, credential: "hub" });
  await world.waitForModelPhase("small", "ready");
  expect(world.models.calls).toContain("resolve org/small hf_x");
  for (const token of [" \n", "hf x", "hf_\u0000", "hf_ü"]) {
    setSecret(token);
    await world.clock.until(
      () => world.modelCondition("small", "Accepted")?.reason === "TokenUnusable",
      60_000,
      "it is refused",
    );
    setSecret("hf_right");
    await world.clock.until(
      () => world.modelCondition("small", "Accepted")?.status === "True",
      60_000,
      "it is taken",
    );
  }
});

describe("a model that crashes", () => {
  beforeEach(async () => {
    world.applyModel("small", { source, running: true });
    await world.waitForModelPhase("small", "running");
  });

  test("records an event each time", async () => {
    for (const times of [1, 2]) {
      const model = crash(true);
      await world.waitForModelPhase("small", "starting");
      await world.clock.advance(60_000);
      expect(crashes()).toBe(times);
      world.models.resident.set("small", { ...model, state: "resident", error: null });
      await world.waitForModelPhase("small", "running");
    }
  });

  test("is loaded as soon as the assistant stops retrying", async () => {
    crash(true);
    await world.waitForModelPhase("small", "starting");
    crash(false);
    await world.clock.until(() => count("load small") === 2, 5_000, "it is loaded again");
    await world.waitForModelPhase("small", "running");
    expect(world.modelCondition("small", "Ready")?.status).toBe("True");
  });
});

test("a queued download shows when it has started", async () => {
  world.models.downloadMs = 20_000;
  const names = ["a", "b", "c"];
  for (const name of names) {
    world.models.repositories.set(`org/${name}`, small);
    world.applyModel(name, { source: `org/${name}` });
  }
  const reasonOf = (name: string) => world.modelCondition(name, "Ready")?.reason;
  await world.clock.until(
    () => names.some((name) => reasonOf(name) === "WaitingForDownload"),
    10_000,
    "two at once",
  );
  const waiting = names.find((name) => reasonOf(name) === "WaitingForDownload") ?? "";
  await world.clock.until(() => count("download") === 3, 30_000, "its turn has come");
  await world.clock.advance(3_000);
  expect(reasonOf(waiting)).toBe("Downloading");
});

const isOut = () =>
  world.clock.until(() => world.models.resident.size === 0, 60_000, "it is out of memory");

describe("a model without a Model resource is unloaded", () => {
  test("after a restore of a store without it", async () => {
    world.applyModel("small", { source, running: true });
    await world.waitForModelPhase("small", "running");
    const model = world.models.resident.get("small");
    if (!model) throw new Error("it is not resident");
    await world.kill();
    world.models.resident.clear();
    world.models.resident.set("forgotten", { ...model, id: "forgotten" });
    world.boot();
    world.applyModel("small", { source, running: false });
    await isOut();
    expect(world.models.calls).toContain("unload forgotten");
  });

  test("after a deletion without a finalizer, as in older stores", async () => {
    world.applyModel("small", { source, running: true });
    await world.waitForModelPhase("small", "running");
    world.store.removeFinalizer("Model", "small", MODEL_FINALIZER);
    world.store.delete("Model", "small", { actor: { name: "test" }, manager: "api" });
    expect(world.model("small")).toBeUndefined();
    await isOut();
    expect(count("unload small")).toBe(1);
  });

  test("but not from a foreign assistant, or if it was loaded on demand", async () => {
    world.applyModel("small", { source, running: true });
    await world.waitForModelPhase("small", "running");
    const model = world.models.resident.get("small");
    if (!model) throw new Error("it is not resident");
    world.models.resident.set("theirs", { ...model, id: "theirs", pinned: false });
    await world.clock.advance(70_000);
    world.models.daemonState = "foreign";
    world.models.resident.set("kept", { ...model, id: "kept" });
    await world.clock.advance(70_000);
    expect([...world.models.resident.keys()]).toEqual(["small", "theirs", "kept"]);
    world.models.daemonState = "up";
    await world.clock.advance(70_000);
    expect([...world.models.resident.keys()]).toEqual(["small", "theirs"]);
  });
});

test("files of another Model are kept, even if their removal was requested", async () => {
  world.applyModel("one", { source });
  world.applyModel("two", { source });
  await world.waitForModelPhase("one", "ready");
  await world.waitForModelPhase("two", "ready");
  const remove = async (name: string) => {
    world.store.delete("Model", name, {
      actor: { name: "test" },
      manager: "api",
      deleteFiles: true,
    });
    await world.clock.until(() => world.model(name) === undefined, 60_000, "it is gone");
  };
  await remove("one");
  await world.clock.advance(70_000);
  expect(world.model("two")?.status?.phase).toBe("ready");
  expect(count("download")).toBe(2);
  expect(world.models.disk.size).toBe(1);
  await remove("two");
  expect(world.models.disk.size).toBe(0);
});

test("a loaded model is loaded again after a restart while its successor is being downloaded", async () => {
  world.models.isShortOfDisk = true;
  world.models.downloadMs = 600_000;
  world.models.disk.set(createResolvedModel(source, small).key, { done: 1_000, total: 1_000 });
  world.models.repositories.set("org/other", { ...small, commit: "e3".repeat(20) });
  world.applyModel("small", { source, running: true });
  await world.waitForModelPhase("small", "running");
  world.applyModel("small", { source: "org/large" });
  await world.clock.until(() => count("download") === 1, 60_000, "the new one is on its way");
  world.applyModel("other", { source: "org/other" });
  await world.waitForModelPhase("other", "ready", 900_000);
  const keyOf = (id: string) =>
    createResolvedModel(id, world.models.repositories.get(id) ?? small).key;
  expect(world.models.disk.has(keyOf(source))).toBe(true);
  await world.clock.until(() => count("load small") === 2, 900_000, "they are exchanged");
  await world.waitForModelPhase("small", "running");
  world.applyModel("another", { source: "org/other" });
  await world.waitForModelPhase("another", "ready");
  world.store.delete("Model", "other", { actor: { name: "test" }, manager: "api" });
  await world.clock.until(() => !world.models.disk.has(keyOf(source)), 60_000, "it makes room");
  expect([...world.models.disk.keys()].toSorted()).toEqual(
    [keyOf("org/large"), keyOf("org/other")].toSorted(),
  );
});

test("a deletion waits for an unresponsive assistant, but not for one that has ended", async () => {
  world.applyModel("small", { source, running: true });
  await world.waitForModelPhase("small", "running");
  world.models.isReachable = false;
  world.store.delete("Model", "small", { actor: { name: "test" }, manager: "api" });
  await world.clock.advance(60_000);
  expect(world.model("small")?.status?.phase).toBe("deleting");
  world.models.isReachable = true;
  await world.clock.until(() => world.model("small") === undefined, 60_000, "it is gone");
  expect(world.models.resident.size).toBe(0);
  world.applyModel("small", { source, running: true });
  await world.waitForModelPhase("small", "running");
  world.models.isReachable = false;
  world.models.daemonState = "waiting";
  world.store.delete("Model", "small", { actor: { name: "test" }, manager: "api" });
  await world.clock.until(() => world.model("small") === undefined, 5_000, "it is gone");
});
