import { afterEach, describe, expect, it } from "vitest";
import { STALLED_READER_MAX_MS } from "../../../../../src/assistant/inference/scheduler/sequence-allocator.ts";
import { SchedulerHarness } from "../../../../support/scheduler-harness.ts";

const answer = Array.from({ length: 600 }, (_, at) => `${at} `);

describe("a client that does not read its events", () => {
  let harness = new SchedulerHarness();
  afterEach(async () => {
    await harness.assertNoLeftovers();
  });

  function begin(sequences: number): void {
    harness = new SchedulerHarness({
      sequences,
      contextTokens: 1_000,
      script: (prompt) => ({ tokens: prompt.startsWith("slow") ? answer : ["so ", "it ", "is"] }),
    });
  }

  it("delays no other answer, and its answer continues at the same position", async () => {
    begin(2);
    const slow = harness.ask("slow");
    const goOn = slow.pause();
    await harness.until(() => harness.steps.length >= 256, "its buffer is full");
    await harness.clock.advance(1_000);
    const steps = harness.steps.length;
    expect(steps).toBeLessThan(260);
    const other = harness.ask("other");
    await harness.untilOver(other);
    expect(other.text).toBe("so it is");
    expect(harness.steps.slice(steps).every((members) => !members.includes("slow"))).toBe(true);
    goOn();
    await harness.untilOver(slow);
    expect(slow.text).toBe(answer.join(""));
  });

  it("gets a token from every decoding step again once it reads again", async () => {
    const long = Array.from({ length: 1_500 }, () => "a ");
    harness = new SchedulerHarness({
      sequences: 1,
      contextTokens: 2_000,
      script: (prompt) => ({ tokens: prompt === "slow" ? long : ["so"] }),
    });
    const slow = harness.ask("slow");
    const goOn = slow.pause();
    await harness.until(() => harness.steps.length >= 256, "its buffer is full");
    await harness.clock.advance(1_000);
    goOn();
    const other = harness.askInBackground("other");
    await harness.untilOver(slow, other);
    expect(harness.runner.calls.filter(({ kind }) => kind === "suspend")).toEqual([]);
  });

  it("pauses its answer also if a few unread events have too many characters", async () => {
    harness = new SchedulerHarness({
      script: () => ({ tokens: answer.map(() => "x".repeat(10_000)) }),
    });
    const slow = harness.ask("x", { maxTokens: 20 });
    const goOn = slow.pause();
    await harness.clock.advance(1_000);
    expect(harness.steps.length).toBeLessThan(10);
    goOn();
    await harness.untilOver(slow);
    expect(slow.text).toHaveLength(200_000);
  });

  it("loses the KV-cache sequence of a background job at once to an interactive job", async () => {
    begin(1);
    const slow = harness.askInBackground("slow");
    const goOn = slow.pause();
    await harness.until(() => harness.steps.length >= 256, "its buffer is full");
    await harness.clock.settle();
    const other = harness.ask("other");
    await harness.until(() => other.isOver, "the other is over", 100);
    // The slow job queues for a KV-cache sequence only when its client reads again, so it does not delay this job.
    const background = harness.askInBackground("background");
    await harness.until(() => background.isOver, "another one is over", 100);
    goOn();
    await harness.untilOver(slow);
    expect(slow.text).toBe(answer.join(""));
  });

  it("loses the KV-cache sequence of an interactive job to any other job after STALLED_READER_MAX_MS", async () => {
    begin(1);
    const slow = harness.ask("slow");
    const goOn = slow.pause();
    await harness.until(() => harness.steps.length >= 256, "its buffer is full");
    const fullAt = harness.clock.now();
    const other = harness.askInBackground("other");
    await harness.until(() => other.started !== undefined, "the other has begun");
    expect(harness.clock.now() - fullAt).toBeGreaterThanOrEqual(STALLED_READER_MAX_MS - 100);
    expect(harness.clock.now() - fullAt).toBeLessThan(STALLED_READER_MAX_MS + 200);
    await harness.untilOver(other);
    goOn();
    await harness.untilOver(slow);
    expect(slow.text).toBe(answer.join(""));
  });
});
