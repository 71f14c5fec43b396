import { afterEach, describe, expect, it } from "vitest";
import { SchedulerHarness } from "../../../../support/scheduler-harness.ts";

/** Returns `count` tokens that identify their job. */
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
  let world = new SchedulerHarness();
  afterEach(async () => {
    await world.assertNoLeftovers();
  });

  it("steps all streams together, in the order of their sequences", async () => {
    world = new SchedulerHarness({ script: (prompt) => letters(prompt, 20) });
    const readers = ["a", "b", "c", "d"].map((name) => world.ask(name));
    await world.untilOver(...readers);
    // The last step of each stream returns the end.
    expect(world.steps).toHaveLength(21);
    expect(world.steps.every((members) => members.length === 4)).toBe(true);
    expect(readers.map(({ text }) => text)).toEqual(
      ["a", "b", "c", "d"].map((name) => whole(name, 20)),
    );
  });

  it("steps only interactive streams while there are any, except in one step of 32", async () => {
    world = new SchedulerHarness({ script: (prompt) => letters(prompt, 100) });
    const background = ["a", "b"].map((name) => world.askInBackground(name));
    await world.until(() => world.steps.length === 10, "background is under way");
    const reader = world.ask("i");
    await world.until(() => reader.started !== undefined, "the interactive one has begun");
    const from = world.steps.length;
    await world.untilOver(reader);
    const during = untilLast("i", world.steps.slice(from));
    const mixed = during.flatMap((members, at) => (members.length > 1 ? [at] : []));
    expect(during.every((members) => members.includes("i"))).toBe(true);
    expect(mixed.length).toBe(Math.floor(during.length / 32));
    expect(mixed.every((at, index) => at - (mixed[index - 1] ?? at - 32) === 32)).toBe(true);
    // One background stream at a time, in rotation.
    const guests = mixed.map((at) => during[at]?.filter((member) => member !== "i"));
    expect(guests.every((members) => members?.length === 1)).toBe(true);
    expect(new Set(guests.flat())).toEqual(new Set(["a", "b"]));
    await world.untilOver(...background);
    expect(background.map(({ text }) => text)).toEqual([whole("a", 100), whole("b", 100)]);
    expect(reader.text).toBe(whole("i", 100));
  });

  it("pauses background work after the current step", async () => {
    world = new SchedulerHarness({ script: (prompt) => letters(prompt, 20) });
    const background = world.askInBackground("a");
    await world.until(() => background.text.length > 0, "background has said something");
    const open = world.runner.gate("step");
    await world.until(() => world.runner.busy === "step", "a step is under way");
    const before = world.steps.length;
    const reader = world.ask("i");
    await world.clock.settle();
    open();
    await world.untilOver(reader);
    const during = untilLast("i", world.steps.slice(before));
    expect(during).toHaveLength(21);
    expect(during.every((members) => !members.includes("a"))).toBe(true);
    await world.untilOver(background);
    expect(background.text).toBe(whole("a", 20));
  });

  it("evicts the youngest background job for an interactive one, without losing its answer", async () => {
    world = new SchedulerHarness({
      sequences: 2,
      script: (prompt) =>
        prompt.startsWith("young") ? { tokens: "so be it, so be".split("") } : letters(prompt, 20),
    });
    const old = world.askInBackground("old");
    await world.until(() => old.started !== undefined, "the old one has begun");
    // The eviction happens while half of a stop text is held back.
    const young = world.askInBackground("young", { stop: ["so be quiet"] });
    await world.until(() => world.steps.length === 7, "the young one is at the beginning");
    const reader = world.ask("hurry");
    await world.until(() => reader.started !== undefined, "the interactive one has begun", 30);
    expect(world.scheduler.load).toEqual({ active: 2, queued: 1 });
    await world.untilOver(old, young, reader);
    expect(old.text).toBe(whole("old", 20));
    expect(young.text).toBe("so be it, so be");
    expect(young.end).toMatchObject({ reason: "stop", completionTokens: 15 });
    const suspended = world.runner.calls.filter(({ kind }) => kind === "suspend");
    expect(suspended.map(({ prompts }) => prompts)).toEqual([["young"]]);
  });

  it("evicts a job during its prompt without losing its answer", async () => {
    world = new SchedulerHarness({
      sequences: 1,
      prefillTokensMax: 4,
      script: (prompt) => letters(prompt, 5),
    });
    const long = `${"long ".repeat(10)}b`;
    const background = world.askInBackground(long);
    await world.until(() => world.runner.calls.length === 5, "it is being read");
    const reader = world.ask("long long i");
    await world.until(() => reader.isOver, "the interactive one is over", 200);
    await world.untilOver(background);
    expect(background.text).toBe(whole(long, 5));
    expect(background.started).toEqual({ type: "started", promptTokens: 51, cachedTokens: 0 });
  });

  it("serves waiting jobs by class, then by arrival, also after an eviction", async () => {
    world = new SchedulerHarness({ sequences: 1, script: (prompt) => letters(prompt, 4) });
    const old = world.askInBackground("old");
    await world.until(() => old.text !== "", "the old one answers");
    const young = world.askInBackground("young");
    const first = world.ask("first");
    const second = world.ask("first again");
    await world.untilOver(old, young, first, second);
    const order = world.steps.map(([prompt]) => prompt);
    expect(order.filter((prompt, at) => prompt !== order[at - 1])).toEqual([
      "old",
      "first",
      "first again",
      "old",
      "young",
    ]);
    // No other job got the sequence in between and lost it again.
    expect(second.started?.cachedTokens).toBe("first".length);
  });

  it("does not let continuous interactive requests starve a background one", async () => {
    world = new SchedulerHarness({
      sequences: 1,
      script: (prompt) => letters(prompt, prompt.startsWith("bg") ? 100 : 10),
    });
    let asked = 0;
    let current = world.ask("i");
    const background = world.askInBackground("bg");
    await world.until(() => {
      if (current.isOver && !background.isOver) {
        asked += 1;
        // The next interactive job arrives before the sequence is free.
        current = world.ask(`i${asked}`);
        world.ask(`j${asked}`);
      }
      return background.isOver;
    }, "background is over");
    expect(background.text).toBe(whole("bg", 100));
    expect(asked).toBeGreaterThan(16);
    await world.until(() => world.scheduler.load.active === 0, "all are over");
  });

  it("evaluates at most one piece of a prompt between two steps of an answer", async () => {
    world = new SchedulerHarness({
      prefillTokensMax: 4,
      script: (prompt) => letters(prompt, 30),
    });
    const reader = world.ask("a");
    await world.until(() => reader.text.length > 0, "an answer is under way");
    const others = [world.ask(`${"long ".repeat(12)}b`), world.ask(`${"long ".repeat(12)}c`)];
    await world.untilOver(reader, ...others);
    const kinds = world.runner.calls.map(({ kind }) => kind).join(" ");
    const first = kinds.indexOf("step");
    const last = kinds.lastIndexOf("prefill");
    expect(kinds.slice(first, last)).toContain("prefill step prefill step prefill");
    expect(kinds.slice(first, last)).not.toContain("prefill prefill");
  });

  it("evaluates the shorter prompt first, without starving the longer one", async () => {
    world = new SchedulerHarness({
      prefillTokensMax: 4,
      contextTokens: 1_000,
      script: (prompt) => letters(prompt, 1),
    });
    const long = world.ask("l".repeat(400));
    await world.until(() => world.runner.calls.length > 2, "the long one is being read");
    const short = world.ask("s".repeat(12));
    await world.until(() => short.isOver, "the short one is over", 120);
    expect(long.started).toBeUndefined();
    let number = 0;
    await world.until(
      () => {
        number += 1;
        if (world.scheduler.load.active < 4) world.ask(`${number} `.padEnd(40, "s"));
        return long.isOver;
      },
      "the long one is over",
      10_000,
    );
    await world.until(() => world.scheduler.load.active === 0, "all are over");
  });

  it("evaluates a long background prompt in small pieces during interactive work", async () => {
    world = new SchedulerHarness({
      contextTokens: 4_000,
      script: (prompt) => letters(prompt, prompt === "i" ? 400 : 3),
    });
    const reader = world.ask("i");
    await world.until(() => reader.text.length > 0, "an answer is under way");
    const background = world.askInBackground(`${"b".repeat(40)}x`);
    await world.until(() => background.started !== undefined, "it has been read");
    expect(reader.isOver).toBe(false);
    const counts = world.runner.calls.flatMap(({ kind, count }) =>
      kind === "prefill" ? [count] : [],
    );
    expect(counts).toEqual([8, 8, 8, 8, 8]);
    await world.untilOver(reader, background);
  });
});
