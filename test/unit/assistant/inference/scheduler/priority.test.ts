import { afterEach, describe, expect, it } from "vitest";
import { SchedulerHarness } from "../../../../support/scheduler-harness.ts";

/** Returns an answer of `count` tokens. Each begins with the last letter of the prompt, which identifies the job. */
function letters(prompt: string, count: number): { tokens: string[] } {
  return { tokens: Array.from({ length: count }, (_, at) => `${prompt.slice(-1)}${at} `) };
}

function whole(prompt: string, count: number): string {
  return letters(prompt, count).tokens.join("");
}

function untilLast(prompt: string, steps: readonly (readonly string[])[]) {
  return steps.slice(0, steps.findLastIndex((members) => members.includes(prompt)) + 1);
}

describe("the scheduler", () => {
  let harness = new SchedulerHarness();
  afterEach(async () => {
    await harness.assertNoLeftovers();
  });

  it("steps all streams together, in the order of their sequences", async () => {
    harness = new SchedulerHarness({ script: (prompt) => letters(prompt, 20) });
    const readers = ["a", "b", "c", "d"].map((name) => harness.ask(name));
    await harness.untilOver(...readers);
    // Each stream takes 20 steps for its tokens, and one more step that returns the end of the answer.
    expect(harness.steps).toHaveLength(21);
    expect(harness.steps.every((members) => members.length === 4)).toBe(true);
    expect(readers.map(({ text }) => text)).toEqual(
      ["a", "b", "c", "d"].map((name) => whole(name, 20)),
    );
  });

  it("steps only interactive streams if there are any; one step in 32 also includes background streams", async () => {
    harness = new SchedulerHarness({ script: (prompt) => letters(prompt, 100) });
    const background = ["a", "b"].map((name) => harness.askInBackground(name));
    await harness.until(() => harness.steps.length === 10, "background is under way");
    const reader = harness.ask("i");
    await harness.until(() => reader.started !== undefined, "the interactive one has begun");
    const from = harness.steps.length;
    await harness.untilOver(reader);
    const during = untilLast("i", harness.steps.slice(from));
    const mixed = during.flatMap((members, at) => (members.length > 1 ? [at] : []));
    expect(during.every((members) => members.includes("i"))).toBe(true);
    expect(mixed.length).toBe(Math.floor(during.length / 32));
    expect(mixed.every((at, index) => at - (mixed[index - 1] ?? at - 32) === 32)).toBe(true);
    // Each step with background work includes one background stream, and the background streams take turns.
    const guests = mixed.map((at) => during[at]?.filter((member) => member !== "i"));
    expect(guests.every((members) => members?.length === 1)).toBe(true);
    expect(new Set(guests.flat())).toEqual(new Set(["a", "b"]));
    await harness.untilOver(...background);
    expect(background.map(({ text }) => text)).toEqual([whole("a", 100), whole("b", 100)]);
    expect(reader.text).toBe(whole("i", 100));
  });

  it("pauses background work after the current step", async () => {
    harness = new SchedulerHarness({ script: (prompt) => letters(prompt, 20) });
    const background = harness.askInBackground("a");
    await harness.until(() => background.text.length > 0, "the background answer has text");
    const open = harness.runner.gate("step");
    await harness.until(() => harness.runner.busy === "step", "a step is under way");
    const before = harness.steps.length;
    const reader = harness.ask("i");
    await harness.clock.settle();
    open();
    await harness.untilOver(reader);
    const during = untilLast("i", harness.steps.slice(before));
    expect(during).toHaveLength(21);
    expect(during.every((members) => !members.includes("a"))).toBe(true);
    await harness.untilOver(background);
    expect(background.text).toBe(whole("a", 20));
  });

  it("evicts the youngest background job for an interactive one, and later completes the answer of the evicted job", async () => {
    harness = new SchedulerHarness({
      sequences: 2,
      script: (prompt) =>
        prompt.startsWith("young") ? { tokens: "so be it, so be".split("") } : letters(prompt, 20),
    });
    const old = harness.askInBackground("old");
    await harness.until(() => old.started !== undefined, "the old one has begun");
    // The job is evicted while half of a stop text is held back.
    const young = harness.askInBackground("young", { stop: ["so be quiet"] });
    await harness.until(() => harness.steps.length === 7, "the young one is at the beginning");
    const reader = harness.ask("hurry");
    await harness.until(() => reader.started !== undefined, "the interactive one has begun", 30);
    expect(harness.scheduler.load).toEqual({ active: 2, queued: 1 });
    await harness.untilOver(old, young, reader);
    expect(old.text).toBe(whole("old", 20));
    expect(young.text).toBe("so be it, so be");
    expect(young.end).toMatchObject({ reason: "stop", completionTokens: 16 });
    const suspended = harness.runner.calls.filter(({ kind }) => kind === "suspend");
    expect(suspended.map(({ prompts }) => prompts)).toEqual([["young"]]);
  });

  it("generates the answer of an evicted job again if the model is deterministic, and emits the rest of it", async () => {
    harness = new SchedulerHarness({
      sequences: 1,
      pieces: { wideTokens: 16, narrowTokensMax: 8, groupTokens: 4, isExact: true },
      script: (prompt) => letters(prompt, 20),
    });
    const prompt = `${"slow ".repeat(5)}b`;
    const background = harness.askInBackground(prompt);
    await harness.until(() => background.text.length > 20, "it answers");
    const reader = harness.ask("hurry");
    await harness.until(() => reader.text.length > 20, "the interactive one answers");
    const before = background.text;
    await harness.untilOver(reader, background);
    expect(background.text).toBe(whole(prompt, 20));
    expect(before.length).toBeLessThan(background.text.length);
    expect(background.end).toMatchObject({ completionTokens: 21 });
    const sizes = harness.runner.calls.filter(({ kind }) => kind === "prefill");
    // The prompt is evaluated twice, in the same pieces; the generated tokens are evaluated only in decoding steps.
    expect(sizes.map(({ count }) => count)).toEqual([16, 4, 5, 4, 16, 4, 5]);
    expect(harness.runner.calls.map(({ kind }) => kind)).not.toContain("suspend");
  });

  it("fails a job whose model does not repeat the answer", async () => {
    let answers = 0;
    harness = new SchedulerHarness({
      sequences: 1,
      pieces: { wideTokens: 16, narrowTokensMax: 8, groupTokens: 4, isExact: true },
      script: (prompt) => letters(`${prompt}${answers++}`, 20),
    });
    const background = harness.askInBackground("b");
    await harness.until(() => background.text.length > 20, "it answers");
    const reader = harness.ask("hurry");
    await harness.untilOver(reader, background);
    expect(background.error).toMatchObject({ code: "engine_failed" });
    expect(reader.error).toBeUndefined();
  });

  it("evaluates a wide piece of a background prompt in one call, but only after as many steps as its narrow pieces would have waited for", async () => {
    harness = new SchedulerHarness({
      contextTokens: 4_000,
      pieces: { wideTokens: 32, narrowTokensMax: 12, groupTokens: 4, isExact: false },
      script: (prompt) => letters(prompt, prompt === "i" ? 800 : 3),
    });
    const reader = harness.ask("i");
    await harness.until(() => reader.text.length > 0, "an answer is under way");
    const background = harness.askInBackground(`${"b".repeat(76)}x`);
    await harness.until(() => background.started !== undefined, "it has been read");
    expect(reader.isOver).toBe(false);
    const { calls } = harness.runner;
    const at = calls.flatMap(({ kind }, index) => (kind === "prefill" ? [index] : []));
    expect(at.map((index) => calls[index]?.count)).toEqual([32, 32, 8, 4]);
    const distances = at.slice(1).map((index, number) => index - (at[number] ?? 0));
    expect(distances).toEqual([128, 32, 32]);
    await harness.untilOver(reader, background);
  });

  it("evicts a job while its prompt is evaluated, and later completes the answer of that job", async () => {
    harness = new SchedulerHarness({
      sequences: 1,
      prefillTokensMax: 4,
      script: (prompt) => letters(prompt, 5),
    });
    const long = `${"long ".repeat(10)}b`;
    const background = harness.askInBackground(long);
    await harness.until(() => harness.runner.calls.length === 5, "it is being read");
    const reader = harness.ask("long long i");
    await harness.until(() => reader.isOver, "the interactive one is over", 200);
    await harness.untilOver(background);
    expect(background.text).toBe(whole(long, 5));
    expect(background.started).toEqual({ type: "started", promptTokens: 51, cachedTokens: 0 });
  });

  it("serves waiting jobs by class, then by arrival, also after an eviction", async () => {
    harness = new SchedulerHarness({ sequences: 1, script: (prompt) => letters(prompt, 4) });
    const old = harness.askInBackground("old");
    await harness.until(() => old.text !== "", "the old one answers");
    const young = harness.askInBackground("young");
    const first = harness.ask("first");
    const second = harness.ask("first again");
    await harness.untilOver(old, young, first, second);
    const order = harness.steps.map(([prompt]) => prompt);
    expect(order.filter((prompt, at) => prompt !== order[at - 1])).toEqual([
      "old",
      "first",
      "first again",
      "old",
      "young",
    ]);
    // The cached tokens show that no other job used the KV-cache sequence between `first` and `first again`.
    expect(second.started?.cachedTokens).toBe("first".length);
  });

  it("does not let continuous interactive requests starve a background job", async () => {
    harness = new SchedulerHarness({
      sequences: 1,
      script: (prompt) => letters(prompt, prompt.startsWith("bg") ? 100 : 10),
    });
    let requestCount = 0;
    let current = harness.ask("i");
    const background = harness.askInBackground("bg");
    await harness.until(() => {
      if (current.isOver && !background.isOver) {
        requestCount += 1;
        // The next interactive jobs are queued before the only KV-cache sequence is free.
        current = harness.ask(`i${requestCount}`);
        harness.ask(`j${requestCount}`);
      }
      return background.isOver;
    }, "background is over");
    expect(background.text).toBe(whole("bg", 100));
    expect(requestCount).toBeGreaterThan(16);
    await harness.until(() => harness.scheduler.load.active === 0, "all are over");
  });

  it("evaluates at most one piece of a prompt between two decoding steps", async () => {
    harness = new SchedulerHarness({
      prefillTokensMax: 4,
      script: (prompt) => letters(prompt, 30),
    });
    const reader = harness.ask("a");
    await harness.until(() => reader.text.length > 0, "an answer is under way");
    const others = [harness.ask(`${"long ".repeat(12)}b`), harness.ask(`${"long ".repeat(12)}c`)];
    await harness.untilOver(reader, ...others);
    const kinds = harness.runner.calls.map(({ kind }) => kind).join(" ");
    const first = kinds.indexOf("step");
    const last = kinds.lastIndexOf("prefill");
    expect(kinds.slice(first, last)).toContain("prefill step prefill step prefill");
    expect(kinds.slice(first, last)).not.toContain("prefill prefill");
  });

  it("evaluates the shorter prompt first, without starving the longer one", async () => {
    harness = new SchedulerHarness({
      prefillTokensMax: 4,
      contextTokens: 1_000,
      script: (prompt) => letters(prompt, 1),
    });
    const long = harness.ask("l".repeat(400));
    await harness.until(() => harness.runner.calls.length > 2, "the long one is being read");
    const short = harness.ask("s".repeat(12));
    await harness.until(() => short.isOver, "the short one is over", 120);
    expect(long.started).toBeUndefined();
    let number = 0;
    await harness.until(
      () => {
        number += 1;
        if (harness.scheduler.load.active < 4) harness.ask(`${number} `.padEnd(40, "s"));
        return long.isOver;
      },
      "the long answer has ended",
      10_000,
    );
    await harness.until(() => harness.scheduler.load.active === 0, "all are over");
  });

  it("evaluates a long background prompt in small pieces during interactive work", async () => {
    harness = new SchedulerHarness({
      contextTokens: 4_000,
      script: (prompt) => letters(prompt, prompt === "i" ? 400 : 3),
    });
    const reader = harness.ask("i");
    await harness.until(() => reader.text.length > 0, "an answer is under way");
    const background = harness.askInBackground(`${"b".repeat(40)}x`);
    await harness.until(() => background.started !== undefined, "it has been read");
    expect(reader.isOver).toBe(false);
    const counts = harness.runner.calls.flatMap(({ kind, count }) =>
      kind === "prefill" ? [count] : [],
    );
    expect(counts).toEqual([8, 8, 8, 8, 8]);
    await harness.untilOver(reader, background);
  });
});
