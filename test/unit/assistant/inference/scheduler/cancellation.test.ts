import { afterEach, describe, expect, it } from "vitest";
import { GenerationReader } from "../../../../support/generation-reader.ts";
import { noLeftovers, SchedulerHarness } from "../../../../support/scheduler-harness.ts";
import { createTextJob } from "../../../../support/scripted-engine.ts";

const gone = new Error("the client went away");

/** Answers that are longer than any test. */
function endless() {
  return { tokens: Array.from({ length: 200 }, () => "word ") };
}

describe("a client that cancels", () => {
  let world = new SchedulerHarness();
  const abort = () => abortion.abort(gone);
  let abortion = new AbortController();
  afterEach(async () => {
    await world.assertNoLeftovers();
  });

  function begin(options: ConstructorParameters<typeof SchedulerHarness>[0] = {}): void {
    world = new SchedulerHarness({ script: endless, ...options });
    abortion = new AbortController();
  }

  it("before its job started causes no calls", async () => {
    begin();
    abort();
    const reader = world.ask("x", {}, abortion);
    await reader.done;
    expect(reader.error).toBe(gone);
    expect(world.runner.calls).toEqual([]);
  });

  it("while its prompt is encoded leaves nothing queued", async () => {
    begin();
    const open = world.runner.gate("encode");
    const reader = world.ask("x", {}, abortion);
    await world.clock.settle();
    expect(world.scheduler.load).toEqual({ active: 0, queued: 1 });
    abort();
    await reader.done;
    expect(reader.error).toBe(gone);
    open();
    await world.clock.settle();
    expect(world.runner.calls).toEqual([]);
  });

  it("while it waits for a sequence leaves the queue", async () => {
    begin({ sequences: 1 });
    const first = world.ask("first", { maxTokens: 10 });
    const reader = world.ask("second", {}, abortion);
    await world.until(() => first.started !== undefined, "the first has begun");
    expect(world.scheduler.load).toEqual({ active: 1, queued: 1 });
    abort();
    await reader.done;
    expect(world.scheduler.load).toEqual({ active: 1, queued: 0 });
    await world.untilOver(first);
  });

  it("during its prompt frees the sequence after the current piece", async () => {
    begin({ prefillTokensMax: 4 });
    const reader = world.ask("x".repeat(100), {}, abortion);
    await world.until(() => world.runner.calls.length === 3, "it is being read");
    abort();
    await reader.done;
    await world.until(() => world.scheduler.load.active === 0, "its sequence is free", 10);
    expect(world.runner.calls).toHaveLength(3);
  });

  it("during its answer frees the sequence after the current step", async () => {
    begin();
    const reader = world.ask("x", {}, abortion);
    await world.until(() => reader.text.length > 0, "it answers");
    const text = reader.text;
    const steps = world.steps.length;
    abort();
    await reader.done;
    await world.until(() => world.scheduler.load.active === 0, "its sequence is free", 10);
    expect(reader.text).toBe(text);
    expect(world.steps).toHaveLength(steps);
  });

  it("by leaving its loop frees the sequence", async () => {
    begin();
    const signal = new AbortController().signal;
    let text = "";
    const left = (async () => {
      for await (const event of world.scheduler.generate(createTextJob("x"), signal)) {
        if (event.type === "text") text += event.text;
        if (text.length > 8) break;
      }
    })();
    await world.until(() => text.length > 8, "it has read enough");
    await left;
    const steps = world.steps.length;
    await world.until(() => world.scheduler.load.active === 0, "its sequence is free", 10);
    expect(world.steps).toHaveLength(steps);
  });

  it("while it is paused for interactive work frees the sequence", async () => {
    begin();
    const reader = world.askInBackground("bg", {}, abortion);
    await world.until(() => reader.text.length > 0, "it answers");
    const other = world.ask("i", { maxTokens: 10 });
    await world.until(() => other.text.length > 0, "the other answers");
    abort();
    await world.until(() => world.scheduler.load.active === 1, "its sequence is free", 10);
    await world.untilOver(other, reader);
    expect(world.steps.at(-1)).toEqual(["i"]);
  });

  it("after its eviction leaves the queue", async () => {
    begin({ sequences: 1 });
    const reader = world.askInBackground("bg", {}, abortion);
    await world.until(() => reader.text.length > 0, "it answers");
    const other = world.ask("i", { maxTokens: 10 });
    await world.until(() => other.text.length > 0, "the other answers");
    expect(world.scheduler.load).toEqual({ active: 1, queued: 1 });
    abort();
    await world.until(() => world.runner.openStreams === 1, "its stream is closed", 10);
    await world.untilOver(other, reader);
  });

  it("while it does not read frees the sequence", async () => {
    begin({
      contextTokens: 1_000,
      script: () => ({ tokens: Array.from({ length: 900 }, () => "a") }),
    });
    const reader = world.ask("x", {}, abortion);
    const goOn = reader.pause();
    await world.until(() => world.steps.length >= 256, "its buffer is full");
    await world.clock.advance(1_000);
    expect(world.steps.length).toBeLessThan(260);
    abort();
    const { text } = reader;
    goOn();
    await reader.done;
    expect(reader.error).toBe(gone);
    expect(reader.text).toBe(text);
    await world.until(() => world.scheduler.load.active === 0, "its sequence is free", 10);
  });

  it("while its sequence is being evicted or assigned leaves a consistent state", async () => {
    for (const kind of ["suspend", "truncate", "prefill"] as const) {
      begin({ sequences: 1 });
      const evicted = world.askInBackground("bg", {}, abortion);
      await world.until(() => evicted.text.length > 0, "it answers");
      const open = world.runner.gate(kind);
      const leaving = new AbortController();
      const other = world.ask("interactive", { maxTokens: 3 }, leaving);
      await world.until(() => world.runner.busy === kind, `${kind} is under way`);
      leaving.abort(gone);
      abort();
      await world.clock.settle();
      open();
      await world.untilOver(evicted, other);
      await world.until(() => world.scheduler.load.active === 0, "the sequence is free", 10);
      const last = world.ask("last", { maxTokens: 3 });
      await world.untilOver(last);
      expect(last.text).toBe("word word word ");
      expect(await world.findLeftovers()).toEqual(noLeftovers);
    }
  });

  it("a thousand times leaves no state behind", async () => {
    begin({ sequences: 8, stepMs: 1, prefillMs: 1 });
    const readers: GenerationReader[] = [];
    for (let number = 0; number < 1_000; number += 1) {
      const leaving = new AbortController();
      const priority = number % 3 === 0 ? "background" : "interactive";
      readers.push(world.ask(`prompt ${number}`, { priority }, leaving));
      if (number % 4 === 0) await world.clock.advance(number % 7);
      const reader = readers[Math.floor(number / 2)];
      if (number % 2 === 0) leaving.abort(gone);
      else void reader?.cancel();
    }
    await world.clock.advance(20);
    for (const reader of readers) void reader.cancel();
    await world.untilOver(...readers);
    await world.until(() => world.scheduler.load.active === 0, "all sequences are free", 10);
    expect(world.scheduler.load).toEqual({ active: 0, queued: 0 });
  });
});
