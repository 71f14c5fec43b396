import { afterEach, describe, expect, it } from "vitest";
import { STALLED_READER_MAX_MS } from "../../../../../src/assistant/inference/scheduler/sequence-allocator.ts";
import { SchedulerHarness } from "../../../../support/scheduler-harness.ts";

const answer = Array.from({ length: 600 }, (_, at) => `${at} `);

describe("a reader that does not read its events", () => {
  let world = new SchedulerHarness();
  afterEach(async () => {
    await world.assertNoLeftovers();
  });

  function begin(sequences: number): void {
    world = new SchedulerHarness({
      sequences,
      contextTokens: 1_000,
      script: (prompt) => ({ tokens: prompt.startsWith("slow") ? answer : ["so ", "it ", "is"] }),
    });
  }

  it("delays no other answer, and continues at its position", async () => {
    begin(2);
    const slow = world.ask("slow");
    const goOn = slow.pause();
    await world.until(() => world.steps.length >= 256, "its buffer is full");
    await world.clock.advance(1_000);
    const steps = world.steps.length;
    expect(steps).toBeLessThan(260);
    const other = world.ask("other");
    await world.untilOver(other);
    expect(other.text).toBe("so it is");
    expect(world.steps.slice(steps).every((members) => !members.includes("slow"))).toBe(true);
    goOn();
    await world.untilOver(slow);
    expect(slow.text).toBe(answer.join(""));
  });

  it("takes part in every step again when it reads", async () => {
    const long = Array.from({ length: 1_500 }, () => "a ");
    world = new SchedulerHarness({
      sequences: 1,
      contextTokens: 2_000,
      script: (prompt) => ({ tokens: prompt === "slow" ? long : ["so"] }),
    });
    const slow = world.ask("slow");
    const goOn = slow.pause();
    await world.until(() => world.steps.length >= 256, "its buffer is full");
    await world.clock.advance(1_000);
    goOn();
    const other = world.askInBackground("other");
    await world.untilOver(slow, other);
    expect(world.runner.calls.filter(({ kind }) => kind === "suspend")).toEqual([]);
  });

  it("pauses its answer at a number of characters too", async () => {
    world = new SchedulerHarness({
      script: () => ({ tokens: answer.map(() => "x".repeat(10_000)) }),
    });
    const slow = world.ask("x", { maxTokens: 20 });
    const goOn = slow.pause();
    await world.clock.advance(1_000);
    expect(world.steps.length).toBeLessThan(10);
    goOn();
    await world.untilOver(slow);
    expect(slow.text).toHaveLength(200_000);
  });

  it("in the background loses its sequence at once to an interactive job", async () => {
    begin(1);
    const slow = world.askInBackground("slow");
    const goOn = slow.pause();
    await world.until(() => world.steps.length >= 256, "its buffer is full");
    await world.clock.settle();
    const other = world.ask("other");
    await world.until(() => other.isOver, "the other is over", 100);
    // It does not queue for a sequence before it reads.
    const background = world.askInBackground("background");
    await world.until(() => background.isOver, "another one is over", 100);
    goOn();
    await world.untilOver(slow);
    expect(slow.text).toBe(answer.join(""));
  });

  it("of an interactive job loses its sequence to any job after some time", async () => {
    begin(1);
    const slow = world.ask("slow");
    const goOn = slow.pause();
    await world.until(() => world.steps.length >= 256, "its buffer is full");
    const fullAt = world.clock.now();
    const other = world.askInBackground("other");
    await world.until(() => other.started !== undefined, "the other has begun");
    expect(world.clock.now() - fullAt).toBeGreaterThanOrEqual(STALLED_READER_MAX_MS - 100);
    expect(world.clock.now() - fullAt).toBeLessThan(STALLED_READER_MAX_MS + 200);
    await world.untilOver(other);
    goOn();
    await world.untilOver(slow);
    expect(slow.text).toBe(answer.join(""));
  });
});
