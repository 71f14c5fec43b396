import { afterEach, describe, expect, it } from "vitest";
import { SchedulerHarness } from "../../../../support/scheduler-harness.ts";
import { plainSampling } from "../../../../support/scripted-engine.ts";

describe("an answer of the scheduler", () => {
  let harness = new SchedulerHarness();
  afterEach(async () => {
    await harness.assertNoLeftovers();
  });

  it("consists of a start, the model's text and an end", async () => {
    harness = new SchedulerHarness({ script: () => ({ tokens: ["Yes", ",", " indeed", "."] }) });
    const reader = harness.ask("Really?");
    await harness.untilOver(reader);
    expect(reader.started).toEqual({ type: "started", promptTokens: 7, cachedTokens: 0 });
    expect(reader.text).toBe("Yes, indeed.");
    // The token with which the model ends its answer counts too.
    expect(reader.end).toEqual({ type: "end", reason: "stop", completionTokens: 5 });
  });

  it("ends with `length` at its token limit, and at the end of the context", async () => {
    harness = new SchedulerHarness({
      contextTokens: 20,
      script: () => ({ tokens: Array.from({ length: 100 }, () => "a") }),
    });
    const limited = harness.ask("one", { maxTokens: 5 });
    const unlimited = harness.ask("two", { maxTokens: 500 });
    await harness.untilOver(limited, unlimited);
    expect(limited.text).toBe("aaaaa");
    expect(limited.end).toMatchObject({ reason: "length", completionTokens: 5 });
    expect(unlimited.end).toMatchObject({ reason: "length", completionTokens: 17 });
  });

  it("is empty if no token is requested", async () => {
    harness = new SchedulerHarness();
    const reader = harness.ask("hello", { maxTokens: 0 });
    await harness.untilOver(reader);
    expect(reader.started?.promptTokens).toBe(5);
    expect(reader.end).toEqual({ type: "end", reason: "length", completionTokens: 0 });
    expect(harness.runner.calls).toEqual([]);
  });

  it("is refused if the prompt fills the context; the error has the token counts of the prompt and the context", async () => {
    harness = new SchedulerHarness({ contextTokens: 10 });
    const reader = harness.ask("0123456789");
    await harness.untilOver(reader);
    expect(reader.error).toMatchObject({ code: "context_length_exceeded", param: "prompt" });
    expect(String(reader.error)).toMatch(/10 tokens.* 10[;,]/);
    const fitting = harness.ask("012345678");
    await harness.untilOver(fitting);
    expect(fitting.end).toMatchObject({ reason: "length", completionTokens: 1 });
  });

  it("is refused if its prompt is empty or cannot be encoded, without affecting others", async () => {
    harness = new SchedulerHarness();
    const empty = harness.ask("");
    await harness.untilOver(empty);
    expect(empty.error).toMatchObject({ code: "invalid_request", param: "prompt" });
    harness.runner.breakNext("encode", new Error("/models/file.gguf: template"));
    const unfit = harness.ask("x");
    await harness.untilOver(unfit);
    expect(unfit.error).toMatchObject({ code: "engine_failed" });
    expect(String(unfit.error)).not.toContain("gguf");
    const other = harness.ask("y");
    await harness.untilOver(other);
    expect(other.end?.reason).toBe("stop");
  });

  it("ends before a stop text, even if the stop text arrives in pieces", async () => {
    harness = new SchedulerHarness({ script: () => ({ tokens: ["one ", "EN", "D", " two"] }) });
    const reader = harness.ask("count", { stop: ["END"] });
    await harness.untilOver(reader);
    expect(reader.text).toBe("one ");
    expect(reader.end).toMatchObject({ reason: "stop", completionTokens: 3 });
    expect(harness.steps).toHaveLength(3);
  });

  it("emits, at the end, text that was held back as a possible stop text", async () => {
    harness = new SchedulerHarness({ script: () => ({ tokens: ["one ", "EN"] }) });
    const readers = [
      harness.ask("by itself", { stop: ["END"] }),
      harness.ask("limit", { stop: ["END"], maxTokens: 2 }),
    ];
    await harness.untilOver(...readers);
    expect(readers.map(({ text, end }) => [text, end?.reason])).toEqual([
      ["one EN", "stop"],
      ["one EN", "length"],
    ]);
  });

  it("has logprobs of exactly the tokens whose text is emitted", async () => {
    harness = new SchedulerHarness({
      script: () => ({ tokens: ["a", "", "b S", "T", "OP", "c"] }),
    });
    const sampling = { ...plainSampling, logprobs: 2 };
    const stopped = harness.ask("x", { sampling, stop: ["STOP"] });
    const whole = harness.ask("y", { sampling, stop: ["STILL"] });
    await harness.untilOver(stopped, whole);
    expect(stopped.text).toBe("ab ");
    expect(stopped.logprobs.map(({ text }) => text)).toEqual(["a", "", "b S"]);
    expect(whole.text).toBe("ab STOPc");
    expect(whole.logprobs.map(({ text }) => text)).toEqual(["a", "", "b S", "T", "OP", "c"]);
    expect(whole.logprobs[0]?.top).toHaveLength(2);
  });

  it("starts when its caller first reads, and calls the runner only then", async () => {
    harness = new SchedulerHarness();
    const never = harness.scheduler.generate(
      {
        prompt: { kind: "text", text: "x" },
        priority: "interactive",
        sampling: plainSampling,
        maxTokens: 3,
        stop: [],
      },
      new AbortController().signal,
    );
    await harness.clock.settle();
    expect(harness.runner.calls).toEqual([]);
    expect(harness.scheduler.load).toEqual({ active: 0, queued: 0 });
    const iterator = never[Symbol.asyncIterator]();
    await iterator.return?.();
    expect(await iterator.next()).toEqual({ done: true, value: undefined });
    expect(harness.runner.calls).toEqual([]);
  });

  it("fails alone if its stream fails, and its KV-cache sequence is truncated before another answer uses it", async () => {
    harness = new SchedulerHarness({
      sequences: 2,
      script: (prompt) => ({
        tokens: ["a", "b", "c", "d"],
        failAt: prompt === "bad" ? 2 : undefined,
      }),
    });
    const bad = harness.ask("bad");
    const good = harness.ask("good");
    await harness.untilOver(bad, good);
    expect(bad.text).toBe("ab");
    expect(bad.error).toMatchObject({ code: "engine_failed" });
    expect(good.text).toBe("abcd");
    const again = harness.ask("good");
    const other = harness.ask("bad, again");
    await harness.untilOver(again, other);
    const cuts = harness.runner.calls.filter(({ kind }) => kind === "truncate");
    expect(cuts.map(({ sequences }) => sequences)).toContainEqual([0]);
    expect(other.started?.cachedTokens).toBe(0);
  });

  it("delivers the text before a failure even to a reader that reads later", async () => {
    harness = new SchedulerHarness({
      script: () => ({ tokens: ["a", "b", "c"], failAt: 2 }),
    });
    const reader = harness.ask("x");
    const goOn = reader.pause();
    await harness.until(() => harness.scheduler.load.active === 0, "it is over");
    goOn();
    await harness.untilOver(reader);
    expect(reader.text).toBe("ab");
    expect(reader.error).toMatchObject({ code: "engine_failed" });
  });
});
