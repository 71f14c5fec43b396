import { afterEach, describe, expect, it } from "vitest";
import { GenerationReader } from "../../../../support/generation-reader.ts";
import { noLeftovers, SchedulerHarness } from "../../../../support/scheduler-harness.ts";
import { createTextJob } from "../../../../support/scripted-engine.ts";

const disconnected = new Error("the client disconnected");

/** Returns an answer that is longer than the tests of this file read. */
function endless() {
  return { tokens: Array.from({ length: 200 }, () => "word ") };
}

describe("the cancellation of a job", () => {
  let harness = new SchedulerHarness();
  const abort = () => abortion.abort(disconnected);
  let abortion = new AbortController();
  afterEach(async () => {
    await harness.assertNoLeftovers();
  });

  function begin(options: ConstructorParameters<typeof SchedulerHarness>[0] = {}): void {
    harness = new SchedulerHarness({ script: endless, ...options });
    abortion = new AbortController();
  }

  it("causes no runner calls if the job has not started", async () => {
    begin();
    abort();
    const reader = harness.ask("x", {}, abortion);
    await reader.done;
    expect(reader.error).toBe(disconnected);
    expect(harness.runner.calls).toEqual([]);
  });

  it("leaves nothing queued if the prompt is being encoded", async () => {
    begin();
    const open = harness.runner.gate("encode");
    const reader = harness.ask("x", {}, abortion);
    await harness.clock.settle();
    expect(harness.scheduler.load).toEqual({ active: 0, queued: 1 });
    abort();
    await reader.done;
    expect(reader.error).toBe(disconnected);
    open();
    await harness.clock.settle();
    expect(harness.runner.calls).toEqual([]);
  });

  it("removes the job from the queue while the job waits for a KV-cache sequence", async () => {
    begin({ sequences: 1 });
    const first = harness.ask("first", { maxTokens: 10 });
    const reader = harness.ask("second", {}, abortion);
    await harness.until(() => first.started !== undefined, "the first has begun");
    expect(harness.scheduler.load).toEqual({ active: 1, queued: 1 });
    abort();
    await reader.done;
    expect(harness.scheduler.load).toEqual({ active: 1, queued: 0 });
    await harness.untilOver(first);
  });

  it("frees the KV-cache sequence of the job after the current piece of its prompt is evaluated", async () => {
    begin({ prefillTokensMax: 4 });
    const reader = harness.ask("x".repeat(100), {}, abortion);
    await harness.until(() => harness.runner.calls.length === 3, "it is being read");
    abort();
    await reader.done;
    await harness.until(() => harness.scheduler.load.active === 0, "its sequence is free", 10);
    expect(harness.runner.calls).toHaveLength(3);
  });

  it("frees the KV-cache sequence of the job after the current decoding step", async () => {
    begin();
    const reader = harness.ask("x", {}, abortion);
    await harness.until(() => reader.text.length > 0, "it answers");
    const text = reader.text;
    const steps = harness.steps.length;
    abort();
    await reader.done;
    await harness.until(() => harness.scheduler.load.active === 0, "its sequence is free", 10);
    expect(reader.text).toBe(text);
    expect(harness.steps).toHaveLength(steps);
  });

  it("frees the KV-cache sequence of the job when the client stops iterating over its events", async () => {
    begin();
    const signal = new AbortController().signal;
    let text = "";
    const left = (async () => {
      for await (const event of harness.scheduler.generate(createTextJob("x"), signal)) {
        if (event.type === "text") text += event.text;
        if (text.length > 8) break;
      }
    })();
    await harness.until(() => text.length > 8, "it has read enough");
    await left;
    const steps = harness.steps.length;
    await harness.until(() => harness.scheduler.load.active === 0, "its sequence is free", 10);
    expect(harness.steps).toHaveLength(steps);
  });

  it("frees the KV-cache sequence of a job that is paused for interactive work", async () => {
    begin();
    const reader = harness.askInBackground("bg", {}, abortion);
    await harness.until(() => reader.text.length > 0, "it answers");
    const other = harness.ask("i", { maxTokens: 10 });
    await harness.until(() => other.text.length > 0, "the other answers");
    abort();
    await harness.until(() => harness.scheduler.load.active === 1, "its sequence is free", 10);
    await harness.untilOver(other, reader);
    expect(harness.steps.at(-1)).toEqual(["i"]);
  });

  it("removes a background job from the queue in which it waits after it lost its KV-cache sequence", async () => {
    begin({ sequences: 1 });
    const reader = harness.askInBackground("bg", {}, abortion);
    await harness.until(() => reader.text.length > 0, "it answers");
    const other = harness.ask("i", { maxTokens: 10 });
    await harness.until(() => other.text.length > 0, "the other answers");
    expect(harness.scheduler.load).toEqual({ active: 1, queued: 1 });
    abort();
    await harness.until(() => harness.runner.openStreams === 1, "its stream is closed", 10);
    await harness.untilOver(other, reader);
  });

  it("frees the KV-cache sequence of a job whose client does not read", async () => {
    begin({
      contextTokens: 1_000,
      script: () => ({ tokens: Array.from({ length: 900 }, () => "a") }),
    });
    const reader = harness.ask("x", {}, abortion);
    const goOn = reader.pause();
    await harness.until(() => harness.steps.length >= 256, "its buffer is full");
    await harness.clock.advance(1_000);
    expect(harness.steps.length).toBeLessThan(260);
    abort();
    const { text } = reader;
    goOn();
    await reader.done;
    expect(reader.error).toBe(disconnected);
    expect(reader.text).toBe(text);
    await harness.until(() => harness.scheduler.load.active === 0, "its sequence is free", 10);
  });

  it("leaves a consistent state while a KV-cache sequence is taken from a job or assigned to one", async () => {
    for (const kind of ["suspend", "truncate", "prefill"] as const) {
      begin({ sequences: 1 });
      const evicted = harness.askInBackground("bg", {}, abortion);
      await harness.until(() => evicted.text.length > 0, "it answers");
      const open = harness.runner.gate(kind);
      const leaving = new AbortController();
      const other = harness.ask("interactive", { maxTokens: 3 }, leaving);
      await harness.until(() => harness.runner.busy === kind, `${kind} is under way`);
      leaving.abort(disconnected);
      abort();
      await harness.clock.settle();
      open();
      await harness.untilOver(evicted, other);
      await harness.until(() => harness.scheduler.load.active === 0, "the sequence is free", 10);
      const last = harness.ask("last", { maxTokens: 3 });
      await harness.untilOver(last);
      expect(last.text).toBe("word word word ");
      expect(await harness.findLeftovers()).toEqual(noLeftovers);
    }
  });

  it("leaves no state behind after a thousand cancelled jobs", async () => {
    begin({ sequences: 8, stepMs: 1, prefillMs: 1 });
    const readers: GenerationReader[] = [];
    for (let number = 0; number < 1_000; number += 1) {
      const leaving = new AbortController();
      const priority = number % 3 === 0 ? "background" : "interactive";
      readers.push(harness.ask(`prompt ${number}`, { priority }, leaving));
      if (number % 4 === 0) await harness.clock.advance(number % 7);
      const reader = readers[Math.floor(number / 2)];
      if (number % 2 === 0) leaving.abort(disconnected);
      else void reader?.cancel();
    }
    await harness.clock.advance(20);
    for (const reader of readers) void reader.cancel();
    await harness.untilOver(...readers);
    await harness.until(() => harness.scheduler.load.active === 0, "all sequences are free", 10);
    expect(harness.scheduler.load).toEqual({ active: 0, queued: 0 });
  });
});
