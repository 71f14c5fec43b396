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

/** Starts one job for each state that a job can have. */
async function everyState() {
  const harness = new SchedulerHarness({ sequences: 2, contextTokens: 1_000, script: endless });
  const silent = harness.ask("does not read");
  silent.pause();
  await harness.until(() => harness.steps.length >= 256, "its buffer is full");
  const evicted = harness.askInBackground("evicted");
  await harness.until(() => evicted.text.length > 0, "it answers");
  const stepped = harness.ask("is stepped");
  await harness.until(() => stepped.text.length > 0, "it answers");
  const queued = harness.ask("is queued");
  const embedding = harness.scheduler.embed(["a", "b"], "background", new AbortController().signal);
  const embedded = embedding.catch((error: unknown) => error);
  await harness.clock.settle();
  harness.runner.gate("encode");
  const encoding = harness.scheduler
    .encode({ kind: "text", text: "x" }, new AbortController().signal)
    .catch((error: unknown) => error);
  const readers = [evicted, silent, stepped, queued];
  expect(harness.scheduler.load).toEqual({ active: 2, queued: 3 });
  return { harness, readers, promises: [embedded, encoding] };
}

describe("when a call to the inference engine never ends", () => {
  it.each(["step", "prefill"] as const)(
    "every job fails after ten minutes, and the model counts as exited (the call is %s)",
    async (kind) => {
      const harness = new SchedulerHarness({ sequences: 1, script: endless });
      harness.runner.gate(kind);
      const stuck = harness.ask("stuck");
      const queued = harness.ask("queued");
      await harness.until(() => harness.runner.busy === kind, "the call has begun");
      await harness.clock.advance(9 * 60_000);
      expect(stuck.isOver).toBe(false);
      await harness.clock.advance(2 * 60_000);
      await harness.untilOver(stuck, queued);
      for (const { error } of [stuck, queued])
        expect(error).toMatchObject({ code: "engine_failed" });
      expect(await harness.scheduler.ended).toEqual({
        reason: "a call to the inference engine did not end within 10 minutes",
      });
      await harness.scheduler[Symbol.asyncDispose]();
    },
  );
});

describe("when a call to the inference engine is rejected", () => {
  it.each(["step", "prefill", "truncate", "suspend", "close"] as const)(
    "every job fails, and the model counts as exited (the call is %s)",
    async (kind) => {
      const harness = new SchedulerHarness({ sequences: 1, script: endless });
      const background = harness.askInBackground("background");
      await harness.until(() => background.text.length > 0, "it answers");
      harness.runner.breakNext(kind, new Error("/models/secret.gguf: illegal instruction"));
      const other = harness.ask("other", { maxTokens: 2 });
      const third = harness.ask("third");
      await harness.untilOver(background, other, third);
      expect(await harness.scheduler.ended).toEqual({
        reason: "a call to the inference engine failed",
      });
      for (const { error } of kind === "close" ? [background, third] : [background, other, third]) {
        expect(error).toMatchObject({ code: "engine_failed" });
        expect(String(error)).not.toContain("gguf");
      }
      const calls = harness.runner.calls.length;
      const late = harness.ask("late");
      await late.done;
      expect(late.error).toMatchObject({ code: "engine_failed" });
      await expect(
        harness.scheduler.embed(["x"], "interactive", new AbortController().signal),
      ).rejects.toMatchObject({ code: "engine_failed" });
      expect(await harness.findLeftovers()).toMatchObject({
        problems: [],
        timers: 0,
        listeners: 0,
      });
      expect(harness.runner.calls).toHaveLength(calls);
    },
  );

  it("jobs in every state fail", async () => {
    const { harness, readers, promises } = await everyState();
    harness.runner.crash();
    await readers[1]?.cancel();
    await harness.untilOver(...readers.filter((_, at) => at !== 1));
    for (const { error } of readers.filter((_, at) => at !== 1))
      expect(error).toMatchObject({ code: "engine_failed" });
    for (const promise of promises) expect(await promise).toMatchObject({ code: "engine_failed" });
  });
});

describe("when the model is unloaded", () => {
  it("jobs in every state fail, and the runner is not called afterwards", async () => {
    const { harness, readers, promises } = await everyState();
    const disposed = harness.scheduler[Symbol.asyncDispose]();
    for (const promise of promises) expect(await promise).toMatchObject({ code: "shutting_down" });
    const [evicted, silent, ...others] = readers;
    if (!evicted || !silent) throw new Error("two more were begun");
    await Promise.all([evicted, ...others].map((reader) => reader.done));
    for (const { error } of [evicted, ...others])
      expect(error).toMatchObject({ code: "shutting_down" });
    expect(harness.runner.busy).toBe("step");
    await harness.clock.advance(10);
    // The test still holds back the call `encode`, but the scheduler has closed all streams.
    expect(harness.runner.openStreams).toBe(0);
    expect(harness.runner.problems).toEqual([]);
    await silent.cancel();
    expect(harness.scheduler.load).toEqual({ active: 0, queued: 0 });
    harness.runner.crash();
    await disposed;
  });

  it("jobs that arrive later fail too", async () => {
    const harness = new SchedulerHarness();
    await harness.scheduler[Symbol.asyncDispose]();
    const late = harness.ask("late");
    await late.done;
    expect(late.error).toMatchObject({ code: "shutting_down" });
    await expect(
      harness.scheduler.encode({ kind: "text", text: "x" }, new AbortController().signal),
    ).rejects.toMatchObject({ code: "shutting_down" });
    expect(await harness.findLeftovers()).toEqual(noLeftovers);
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

describe("a model that only supports embeddings", () => {
  it("refuses to generate", async () => {
    const harness = new SchedulerHarness({ sequences: 0 });
    const reader = harness.ask("x");
    await reader.done;
    expect(reader.error).toMatchObject({ code: "model_unsuitable" });
    expect(await harness.findLeftovers()).toEqual(noLeftovers);
  });
});
