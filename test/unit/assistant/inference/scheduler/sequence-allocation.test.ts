import { afterEach, describe, expect, it } from "vitest";
import { SchedulerHarness } from "../../../../support/scheduler-harness.ts";

describe("the KV-cache sequence for a prompt", () => {
  let harness = new SchedulerHarness();
  afterEach(async () => {
    await harness.assertNoLeftovers();
  });

  /** Sends a prompt and returns the number of its tokens that were cached. */
  async function cached(prompt: string): Promise<number | undefined> {
    const reader = harness.ask(prompt);
    await harness.untilOver(reader);
    return reader.started?.cachedTokens;
  }

  /** Returns the KV-cache sequence of the last decoding step. */
  function sequence(): number | undefined {
    return harness.runner.calls.findLast(({ kind }) => kind === "step")?.sequences[0];
  }

  it("is the one with the longest common prefix", async () => {
    harness = new SchedulerHarness({ sequences: 3, script: () => ({ tokens: ["O", "K"] }) });
    const system = "You are of few words. ";
    expect(await cached(`${system}First question.`)).toBe(0);
    expect(await cached("Another conversation.")).toBe(0);
    // The step that returned the end of the answer also evaluated the answer's last token, so the sequence contains
    // that token, too.
    const first = `${system}First question.OK`;
    expect(await cached(`${first} Second question.`)).toBe(first.length);
    expect(sequence()).toBe(0);
    expect(await cached("Another conversation.OK More.")).toBe("Another conversation.OK".length);
    expect(sequence()).toBe(1);
  });

  it("is reused for all tokens of the prompt but the last if it already contains the whole prompt", async () => {
    harness = new SchedulerHarness();
    expect(await cached("the same")).toBe(0);
    expect(await cached("the same")).toBe("the same".length - 1);
    expect(harness.runner.calls.filter(({ kind }) => kind === "prefill")).toHaveLength(1);
  });

  it("is the least recently used one if no prefix is long enough", async () => {
    harness = new SchedulerHarness({ sequences: 2, script: () => ({ tokens: ["OK"] }) });
    for (const prompt of ["alpha alpha alpha", "beta beta beta", "alpha alpha alpha"])
      await cached(prompt);
    expect(sequence()).toBe(0);
    await cached("gamma gamma gamma");
    expect(sequence()).toBe(1);
  });

  it("is an empty sequence if only conversations with a short common prefix are cached", async () => {
    harness = new SchedulerHarness({ sequences: 2, script: () => ({ tokens: ["OK"] }) });
    const one = `Hello. ${"This is one long conversation. ".repeat(3)}`;
    const other = `Hello. ${"Here are other things to speak of. ".repeat(3)}`;
    await cached(one);
    expect(await cached(other)).toBe(0);
    expect(await cached(one)).toBe(one.length - 1);
    expect(await cached(other)).toBe(other.length - 1);
  });

  it("is evaluated again if its state could not be truncated exactly", async () => {
    harness = new SchedulerHarness({ sequences: 1, keeps: () => 0 });
    for (const prompt of ["the same words", "the same words", "the same"]) {
      const reader = harness.ask(prompt);
      await harness.untilOver(reader);
      expect(reader.started?.cachedTokens).toBe(0);
      expect(reader.text).toBe(`You said: ${prompt}`);
    }
  });
});
