import { describe, expect, it } from "vitest";
import { GenerationReader } from "../../../../support/generation-reader.ts";
import { noLeftovers, SchedulerHarness } from "../../../../support/scheduler-harness.ts";
import {
  createTextJob,
  ScriptedEngine,
  uncontestedCores,
} from "../../../../support/scripted-engine.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

const endless = () => ({ tokens: Array.from({ length: 600 }, () => "word ") });

/** Starts one job for each state. */
async function everyState() {
  const world = new SchedulerHarness({ sequences: 2, contextTokens: 1_000, script: endless });
  const silent = world.ask("does not read");
  silent.pause();
  await world.until(() => world.steps.length >= 256, "its buffer is full");
  const evicted = world.askInBackground("evicted");
  await world.until(() => evicted.text.length > 0, "it answers");
  const stepped = world.ask("is stepped");
  await world.until(() => stepped.text.length > 0, "it answers");
  const queued = world.ask("is queued");
  const embedding = world.scheduler.embed(["a", "b"], "background", new AbortController().signal);
  const embedded = embedding.catch((error: unknown) => error);
  await world.clock.settle();
  world.runner.gate("encode");
  const encoding = world.scheduler
    .encode({ kind: "text", text: "x" }, new AbortController().signal)
    .catch((error: unknown) => error);
  const readers = [evicted, silent, stepped, queued];
  expect(world.scheduler.load).toEqual({ active: 2, queued: 3 });
  return { world, readers, promises: [embedded, encoding] };
}

describe("when a call of the engine is rejected", () => {
  it.each(["step", "prefill", "truncate", "suspend", "close"] as const)(
    "every job fails, and the model has ended: %s",
    async (kind) => {
      const world = new SchedulerHarness({ sequences: 1, script: endless });
      const background = world.askInBackground("background");
      await world.until(() => background.text.length > 0, "it answers");
      world.runner.breakNext(kind, new Error("/models/secret.gguf: illegal instruction"));
      const other = world.ask("other", { maxTokens: 2 });
      const third = world.ask("third");
      await world.untilOver(background, other, third);
      expect(await world.scheduler.ended).toEqual({ reason: "a call of the engine failed" });
      for (const { error } of kind === "close" ? [background, third] : [background, other, third]) {
        expect(error).toMatchObject({ code: "engine_failed" });
        expect(String(error)).not.toContain("gguf");
      }
      const calls = world.runner.calls.length;
      const late = world.ask("late");
      await late.done;
      expect(late.error).toMatchObject({ code: "engine_failed" });
      await expect(
        world.scheduler.embed(["x"], "interactive", new AbortController().signal),
      ).rejects.toMatchObject({ code: "engine_failed" });
      expect(await world.findLeftovers()).toMatchObject({ problems: [], timers: 0, listeners: 0 });
      expect(world.runner.calls).toHaveLength(calls);
    },
  );

  it("jobs in every state fail", async () => {
    const { world, readers, promises } = await everyState();
    world.runner.crash();
    await readers[1]?.cancel();
    await world.untilOver(...readers.filter((_, at) => at !== 1));
    for (const { error } of readers.filter((_, at) => at !== 1))
      expect(error).toMatchObject({ code: "engine_failed" });
    for (const promise of promises) expect(await promise).toMatchObject({ code: "engine_failed" });
  });
});

describe("when the model is unloaded", () => {
  it("jobs in every state fail, and the runner is not called after that", async () => {
    const { world, readers, promises } = await everyState();
    const disposed = world.scheduler[Symbol.asyncDispose]();
    for (const promise of promises) expect(await promise).toMatchObject({ code: "shutting_down" });
    const [evicted, silent, ...others] = readers;
    if (!evicted || !silent) throw new Error("two more were begun");
    await Promise.all([evicted, ...others].map((reader) => reader.done));
    for (const { error } of [evicted, ...others])
      expect(error).toMatchObject({ code: "shutting_down" });
    expect(world.runner.busy).toBe("step");
    await world.clock.advance(10);
    // The encoding continues until the test opens its gate.
    expect(world.runner.openStreams).toBe(0);
    expect(world.runner.problems).toEqual([]);
    await silent.cancel();
    expect(world.scheduler.load).toEqual({ active: 0, queued: 0 });
    world.runner.crash();
    await disposed;
  });

  it("later jobs fail too", async () => {
    const world = new SchedulerHarness();
    await world.scheduler[Symbol.asyncDispose]();
    const late = world.ask("late");
    await late.done;
    expect(late.error).toMatchObject({ code: "shutting_down" });
    await expect(
      world.scheduler.encode({ kind: "text", text: "x" }, new AbortController().signal),
    ).rejects.toMatchObject({ code: "shutting_down" });
    expect(await world.findLeftovers()).toEqual(noLeftovers);
  });

  it("the runner can be disposed after its last call", async () => {
    const clock = new VirtualClock();
    const engine = new ScriptedEngine({ clock, stepMs: 10, script: endless });
    const signal = new AbortController().signal;
    const request = { id: "m", path: "m", contextTokens: undefined, sequences: 2 };
    const model = await engine.load(
      { ...request, memoryBytesMax: 1e9, cores: uncontestedCores },
      signal,
    );
    const reader = new GenerationReader(model.generate(createTextJob("x"), signal));
    await clock.until(() => reader.text.length > 0, 1_000, "it answers");
    const disposed = model[Symbol.asyncDispose]();
    const runner = engine.models[0]?.runner;
    await clock.settle();
    expect(runner?.disposed).toBe(false);
    await clock.advance(10);
    await disposed;
    expect(runner?.disposed).toBe(true);
    expect(runner?.problems).toEqual([]);
  });
});

describe("a model that only embeds", () => {
  it("refuses to generate", async () => {
    const world = new SchedulerHarness({ sequences: 0 });
    const reader = world.ask("x");
    await reader.done;
    expect(reader.error).toMatchObject({ code: "model_unsuitable" });
    expect(await world.findLeftovers()).toEqual(noLeftovers);
  });
});
