import { afterEach, describe, expect, test } from "vitest";
import { AssistantError } from "../../../../../src/assistant/assistant-error.ts";
import { KnownModels } from "../../../../../src/assistant/inference/models/known-models.ts";
import { ModelFactsCache } from "../../../../../src/assistant/inference/models/model-facts-cache.ts";
import { Residency } from "../../../../../src/assistant/inference/models/residency.ts";
import { StubEngine } from "../../../../../src/assistant/inference/stub/stub-engine.ts";
import { silentLogger } from "../../../../../src/base/logger.ts";
import { GatedEngine } from "../../../../support/gated-engine.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

const never = new AbortController().signal;
const KEEP_ALIVE_MS = 300_000;

let residency: Residency | undefined;
afterEach(async () => {
  await residency?.[Symbol.asyncDispose]();
});

async function createResidency(...models: (string | { id: string; isPinned: boolean })[]) {
  const clock = new VirtualClock();
  const engine = new GatedEngine(new StubEngine({ clock }));
  const known = new KnownModels({ folder: undefined, aliases: new Map() });
  const facts = new ModelFactsCache({ engine });
  for (const model of models) {
    const { id, isPinned } = typeof model === "string" ? { id: model, isPinned: false } : model;
    // A model without a file needs no disk access, whose duration a test cannot control.
    await known.register({ id, isPinned, path: "" });
  }
  const made = new Residency({
    engine,
    known,
    facts,
    memoryBytesMax: 10,
    keepAliveMs: KEEP_ALIVE_MS,
    clock,
    logger: silentLogger,
  });
  residency = made;
  const acquire = async (id: string, keepAliveMs?: number, signal = never) =>
    made.acquire(await known.find(id), { keepAliveMs }, signal);
  const stateOf = async (id: string) =>
    (await made.states()).find((state) => state.id === id) ?? expect.fail(`${id} is not listed`);
  return { clock, engine, known, residency: made, acquire, stateOf };
}

describe("a model on demand", () => {
  test("is loaded once for several concurrent requests", async () => {
    const { acquire, engine, stateOf } = await createResidency("a");
    const open = engine.holdLoads();
    const leases = [acquire("a"), acquire("a"), acquire("a")];
    await expect.poll(() => engine.loads.length).toBe(1);
    expect((await stateOf("a")).state).toBe("loading");
    open();
    const models = new Set((await Promise.all(leases)).map(({ model }) => model));
    expect(models.size).toBe(1);
    expect(engine.loads).toHaveLength(1);
    expect((await stateOf("a")).state).toBe("resident");
  });

  test("is unloaded after its idle time, and not before", async () => {
    const { acquire, clock, stateOf } = await createResidency("a");
    const [one, other] = [await acquire("a"), await acquire("a")];
    await clock.advance(2 * KEEP_ALIVE_MS);
    one.release();
    one.release();
    await clock.advance(2 * KEEP_ALIVE_MS);
    expect((await stateOf("a")).state).toBe("resident");
    other.release();
    expect((await stateOf("a")).expiresAt).toBe(clock.now() + KEEP_ALIVE_MS);
    await clock.advance(KEEP_ALIVE_MS - 1);
    expect((await stateOf("a")).state).toBe("resident");
    await clock.advance(1);
    expect((await stateOf("a")).state).toBe("unloaded");
  });

  test("is kept in memory as long as the last request asked for", async () => {
    const { acquire, clock, stateOf } = await createResidency("a");
    (await acquire("a", Number.POSITIVE_INFINITY)).release();
    await clock.advance(100 * KEEP_ALIVE_MS);
    expect(await stateOf("a")).toMatchObject({ state: "resident", expiresAt: undefined });
    (await acquire("a", 0)).release();
    await clock.advance(0);
    expect((await stateOf("a")).state).toBe("unloaded");
  });

  test("is kept forever if the requested time is longer than any timer", async () => {
    const { acquire, clock, stateOf } = await createResidency("a");
    (await acquire("a", 1e16)).release();
    expect(await stateOf("a")).toMatchObject({ state: "resident", expiresAt: undefined });
    await clock.advance(2 ** 31);
    expect((await stateOf("a")).state).toBe("resident");
  });

  test("continues to load for other callers when one caller aborts", async () => {
    const { acquire, engine } = await createResidency("a");
    const open = engine.holdLoads();
    const leaving = new AbortController();
    const left = acquire("a", undefined, leaving.signal);
    const stays = acquire("a");
    await expect.poll(() => engine.loads.length).toBe(1);
    leaving.abort(new Error("cancelled"));
    await expect(left).rejects.toThrow("cancelled");
    open();
    expect((await stays).model.id).toBe("a");
  });
});

describe("the memory budget", () => {
  test("evicts the least recently used model, and pinned models last", async () => {
    const { acquire, clock, engine, stateOf } = await createResidency(
      { id: "pinned", isPinned: true },
      "a",
      "b",
      "c",
    );
    for (const id of ["pinned", "a", "b"]) {
      engine.memoryBytes.set(id, 3);
      (await acquire(id)).release();
      await clock.advance(10);
    }
    (await acquire("a")).release();
    engine.memoryBytes.set("c", 4);
    (await acquire("c")).release();
    const states = async () =>
      Promise.all(["pinned", "a", "b", "c"].map(async (id) => (await stateOf(id)).state));
    expect(await states()).toEqual(["resident", "resident", "unloaded", "resident"]);
    engine.memoryBytes.set("b", 10);
    await acquire("b");
    expect(await states()).toEqual(["unloaded", "unloaded", "resident", "unloaded"]);
  });

  test("waits until a model that is in use can be evicted", async () => {
    const { acquire, engine, stateOf } = await createResidency("a", "b");
    engine.memoryBytes.set("a", 8);
    engine.memoryBytes.set("b", 8);
    const busy = await acquire("a");
    const waiting = acquire("b");
    await expect.poll(async () => (await stateOf("b")).state).toBe("loading");
    expect(engine.loads).toHaveLength(1);
    busy.release();
    expect((await waiting).model.id).toBe("b");
    expect((await stateOf("a")).state).toBe("unloaded");
  });

  test("never makes a load wait for memory that a later load would free", async () => {
    const { acquire, engine, stateOf } = await createResidency("large", "next");
    engine.memoryBytes.set("large", 11);
    const open = engine.holdLoads();
    const large = acquire("large");
    const next = acquire("next");
    await expect.poll(() => engine.loads.map(({ id }) => id)).toEqual(["large"]);
    expect((await stateOf("next")).state).toBe("loading");
    open();
    (await large).release();
    expect((await next).model.id).toBe("next");
  });

  test("respects the memory limit of a model, and reloads the model if it exceeds a lowered limit", async () => {
    const { engine, known, residency: made, stateOf } = await createResidency();
    engine.memoryBytes.set("a", 8);
    await known.register({ id: "a", path: "", isPinned: true });
    await made.load("a", never);
    await known.register({ id: "a", path: "", isPinned: true, memoryBytesMax: 8 });
    await made.load("a", never);
    expect(engine.loads.map(({ memoryBytesMax }) => memoryBytesMax)).toEqual([10]);
    await known.register({ id: "a", path: "", isPinned: true, memoryBytesMax: 5 });
    engine.failures.set("a", new AssistantError("insufficient_memory", "8 of 5"));
    await expect(made.load("a", never)).rejects.toMatchObject({ code: "insufficient_memory" });
    expect(engine.loads.map(({ memoryBytesMax }) => memoryBytesMax)).toEqual([10, 5]);
    expect((await stateOf("a")).state).toBe("failed");
  });

  test("evicts nothing for a model that does not fit even alone", async () => {
    const { acquire, engine, stateOf } = await createResidency(
      { id: "kept", isPinned: true },
      "a",
      "huge",
    );
    (await acquire("kept")).release();
    (await acquire("a")).release();
    engine.memoryBytes.set("huge", 11);
    engine.failures.set("huge", new AssistantError("insufficient_memory", "11 of 10"));
    await expect(acquire("huge")).rejects.toMatchObject({ code: "insufficient_memory" });
    expect(engine.loads.at(-1)?.memoryBytesMax).toBe(10);
    expect((await stateOf("kept")).state).toBe("resident");
    expect((await stateOf("a")).state).toBe("resident");
  });

  test("is passed to the engine as the free memory, and the engine reports a model that does not fit", async () => {
    const { acquire, engine, stateOf } = await createResidency("huge");
    engine.memoryBytes.set("huge", 11);
    engine.failures.set("huge", new AssistantError("insufficient_memory", "11 of 10"));
    await expect(acquire("huge")).rejects.toMatchObject({ code: "insufficient_memory" });
    expect(engine.loads[0]?.memoryBytesMax).toBe(10);
    expect(await stateOf("huge")).toMatchObject({
      state: "failed",
      error: { code: "insufficient_memory" },
    });
  });
});

describe("failures of a model", () => {
  test("a file that fails to load is not loaded again at once, and the error is repeated", async () => {
    const { acquire, clock, engine } = await createResidency("a");
    engine.failures.set("a", new AssistantError("model_unusable", "it is damaged"));
    await expect(acquire("a")).rejects.toMatchObject({ code: "model_unusable" });
    await expect(acquire("a")).rejects.toMatchObject({
      message: "it is damaged",
      retryAfterSeconds: 1,
    });
    expect(engine.loads).toHaveLength(1);
    await clock.advance(1_000);
    await expect(acquire("a")).rejects.toMatchObject({ code: "model_unusable" });
    expect(engine.loads).toHaveLength(2);
    await expect(acquire("a")).rejects.toMatchObject({ retryAfterSeconds: 2 });
    engine.failures.clear();
    await clock.advance(2_000);
    expect((await acquire("a")).model.id).toBe("a");
  });

  test("a pinned model that crashes is reloaded with growing delays", async () => {
    const {
      clock,
      engine,
      residency: models,
      stateOf,
    } = await createResidency({ id: "a", isPinned: true });
    await models.loadPinned();
    for (const waitMs of [1_000, 2_000, 4_000]) {
      const before = engine.loads.length;
      engine.crash("a");
      await clock.settle();
      expect(await stateOf("a")).toMatchObject({
        state: "failed",
        error: { code: "engine_failed", message: "the engine of model a ended: killed by SIGSEGV" },
      });
      await clock.advance(waitMs - 1);
      expect(engine.loads).toHaveLength(before);
      await clock.advance(1);
      await expect.poll(async () => (await stateOf("a")).state).toBe("resident");
    }
    await clock.advance(60_000);
    engine.crash("a");
    await clock.settle();
    await clock.advance(1_000);
    await expect.poll(async () => (await stateOf("a")).state).toBe("resident");
  });

  test("a pinned model is reloaded even if an explicit load fails meanwhile", async () => {
    const {
      clock,
      engine,
      residency: models,
      stateOf,
    } = await createResidency({ id: "a", isPinned: true });
    await models.loadPinned();
    engine.crash("a");
    await clock.settle();
    await clock.advance(500);
    engine.failures.set("a", new AssistantError("engine_failed", "it crashed again"));
    await expect(models.load("a", never)).rejects.toMatchObject({ code: "engine_failed" });
    engine.failures.clear();
    await clock.advance(500);
    await clock.advance(500);
    await expect.poll(async () => (await stateOf("a")).state).toBe("resident");
  });

  test("a pinned model that is unloaded after a crash is not reloaded", async () => {
    const {
      clock,
      engine,
      known,
      residency: models,
    } = await createResidency({ id: "a", isPinned: true });
    await models.loadPinned();
    engine.crash("a");
    await clock.settle();
    known.unregister("a");
    await models.unload("a");
    await clock.advance(60_000);
    expect(engine.loads).toHaveLength(1);
  });

  test("an earlier crash is not reported for a model that was unloaded because it was idle", async () => {
    const { acquire, clock, engine, stateOf } = await createResidency("a");
    (await acquire("a")).release();
    engine.crash("a");
    await clock.settle();
    await clock.advance(1_000);
    (await acquire("a")).release();
    await clock.advance(KEEP_ALIVE_MS);
    expect(await stateOf("a")).toMatchObject({ state: "unloaded", error: undefined });
  });

  test("a request shortly after a crash waits for the next load", async () => {
    const { acquire, clock, engine } = await createResidency("a");
    (await acquire("a")).release();
    engine.crash("a");
    await clock.settle();
    const waiting = acquire("a");
    await clock.advance(1_000);
    expect((await waiting).model.id).toBe("a");
    expect(engine.loads).toHaveLength(2);
  });
});

describe("explicit loads and unloads", () => {
  test("a model in memory is kept once it is pinned", async () => {
    const {
      acquire,
      clock,
      engine,
      known,
      residency: models,
      stateOf,
    } = await createResidency("a");
    (await acquire("a")).release();
    await known.register({ id: "a", path: "", isPinned: true });
    await models.load("a", never);
    await clock.advance(2 * KEEP_ALIVE_MS);
    expect(await stateOf("a")).toMatchObject({ state: "resident", expiresAt: undefined });
    engine.crash("a");
    await clock.settle();
    await clock.advance(1_000);
    await expect.poll(async () => (await stateOf("a")).state).toBe("resident");
  });

  test("an unload waits for requests in progress", async () => {
    const { acquire, residency: models, stateOf } = await createResidency("a");
    const lease = await acquire("a");
    const unloading = models.unload("a");
    expect((await stateOf("a")).state).toBe("unloading");
    lease.release();
    await unloading;
    expect((await stateOf("a")).state).toBe("unloaded");
  });

  test("an unload aborts a load of the same model", async () => {
    const { acquire, engine, residency: models, stateOf } = await createResidency("a");
    engine.holdLoads();
    const waiting = acquire("a");
    waiting.catch(() => {});
    await expect.poll(() => engine.loads.length).toBe(1);
    await models.unload("a");
    await expect(waiting).rejects.toMatchObject({ code: "model_unusable" });
    expect((await stateOf("a")).state).toBe("unloaded");
  });

  test("a load with a changed registration replaces the model in memory", async () => {
    const { acquire, engine, known, residency: models, stateOf } = await createResidency("a");
    const busy = await acquire("a");
    await known.register({ id: "a", path: "/elsewhere/a", isPinned: true });
    const loading = models.load("a", never);
    await expect.poll(async () => (await stateOf("a")).state).toBe("unloading");
    busy.release();
    await loading;
    expect(engine.loads.map(({ path }) => path)).toEqual(["", "/elsewhere/a"]);
    await models.load("a", never);
    expect(engine.loads).toHaveLength(2);
  });

  test("no model is loaded after the disposal of the residency has begun", async () => {
    const { engine, residency: models } = await createResidency(
      { id: "a", isPinned: true },
      { id: "b", isPinned: true },
    );
    engine.holdLoads();
    const pinned = models.loadPinned();
    await expect.poll(() => engine.loads.length).toBe(1);
    await models[Symbol.asyncDispose]();
    await pinned;
    expect(engine.loads).toHaveLength(1);
    expect((await models.states()).map(({ state }) => state)).toEqual(["unloaded", "unloaded"]);
  });

  test("the disposal of the residency makes pending and later requests for a model fail with shutting_down", async () => {
    const { acquire, engine, residency: models } = await createResidency("a", "b");
    await acquire("a");
    engine.holdLoads();
    const waiting = acquire("b");
    waiting.catch(() => {});
    await expect.poll(() => engine.loads.length).toBe(2);
    await models[Symbol.asyncDispose]();
    await expect(waiting).rejects.toMatchObject({ code: "shutting_down" });
    await expect(acquire("a")).rejects.toMatchObject({ code: "shutting_down" });
  });
});

test("the reported facts of a model in memory are those from the time when it was loaded", async () => {
  const { acquire, engine, known, residency: models } = await createResidency("a");
  const file = await known.find("a");
  (await acquire("a")).release();
  engine.kinds.set("a", "embedding");
  const replaced = { ...file, modifiedMs: file.modifiedMs + 1 };
  expect((await models.facts(replaced)).kind).not.toBe("embedding");
  await models.unload("a");
  expect((await models.facts(replaced)).kind).toBe("embedding");
});

describe("a request that names no model", () => {
  test("uses a model in memory, then a pinned model, then the first model; embedding models are used for embeddings only", async () => {
    const {
      acquire,
      engine,
      residency: models,
    } = await createResidency("a", "e", {
      id: "p",
      isPinned: true,
    });
    engine.kinds.set("e", "embedding");
    expect((await models.resolve(undefined, "generate")).id).toBe("p");
    expect((await models.resolve(undefined, "embed")).id).toBe("e");
    (await acquire("a")).release();
    expect((await models.resolve(undefined, "generate")).id).toBe("a");
    (await acquire("p")).release();
    expect((await models.resolve(undefined, "generate")).id).toBe("p");
  });

  test("uses a model with a chat template for a chat, even if one without comes first", async () => {
    const { engine, residency: models } = await createResidency("base", "chat");
    engine.kinds.set("base", "completion");
    expect((await models.resolve(undefined, "generate")).id).toBe("base");
    expect((await models.resolve(undefined, "chat")).id).toBe("chat");
  });

  test("fails without a model, and the error explains how to get one", async () => {
    const { engine, known, residency: models } = await createResidency();
    await expect(models.resolve(undefined, "generate")).rejects.toMatchObject({
      code: "no_model",
      message: expect.stringContaining("berth assistant --system --model FILE.gguf"),
    });
    await known.register({ id: "e", path: "", isPinned: false });
    engine.kinds.set("e", "embedding");
    await expect(models.resolve(undefined, "generate")).rejects.toMatchObject({ code: "no_model" });
  });
});
