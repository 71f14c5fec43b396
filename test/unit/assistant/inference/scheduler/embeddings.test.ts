import { afterEach, describe, expect, it } from "vitest";
import type { EmbeddingResult } from "../../../../../src/assistant/inference/runner.ts";
import { noLeftovers, SchedulerHarness } from "../../../../support/scheduler-harness.ts";

const endless = () => ({ tokens: Array.from({ length: 200 }, () => "word ") });

describe("embeddings that the scheduler computes", () => {
  let harness = new SchedulerHarness();
  const { signal } = new AbortController();
  afterEach(async () => {
    await harness.assertNoLeftovers();
  });

  /** Returns a promise of the outcome, so that the test can advance the clock meanwhile. */
  function embed(
    texts: readonly string[],
    priority: "interactive" | "background" = "interactive",
    until: AbortSignal = signal,
  ) {
    const result: { value?: EmbeddingResult; error?: unknown; over: boolean } = { over: false };
    harness.scheduler
      .embed(texts, priority, until)
      .then(
        (value) => {
          result.value = value;
        },
        (error: unknown) => {
          result.error = error;
        },
      )
      .finally(() => {
        result.over = true;
      });
    return result;
  }

  function embedCalls(): number[] {
    return harness.runner.calls.flatMap(({ kind, count }) => (kind === "embed" ? [count] : []));
  }

  it("are returned in the order of the texts, however the texts are split into pieces", async () => {
    harness = new SchedulerHarness({ embedMs: 5 });
    const texts = Array.from({ length: 300 }, (_, at) => "x".repeat(1 + (at % 90)));
    const result = embed(texts);
    await harness.until(() => result.over, "it is over");
    expect(result.value?.tokens).toEqual(texts.map((text) => text.length));
    const alone = new SchedulerHarness({ embedMs: 0 });
    const { vectors } = await alone.runner.embed(texts, signal);
    expect(result.value?.vectors).toEqual(vectors);
    expect(embedCalls().length).toBeGreaterThan(5);
  });

  it("are returned at once for an empty list", async () => {
    harness = new SchedulerHarness();
    expect(await harness.scheduler.embed([], "interactive", signal)).toEqual({
      vectors: [],
      tokens: [],
    });
    expect(harness.runner.calls).toEqual([]);
  });

  it("are computed in pieces whose size adapts to the speed of the model", async () => {
    for (const [embedMs, count] of [
      [0.01, 20_000],
      [1, 5_000],
      [30, 500],
    ] as const) {
      harness = new SchedulerHarness({ embedMs });
      const result = embed(Array.from({ length: count }, () => "a short text"));
      await harness.until(() => result.over, "it is over");
      const sizes = embedCalls()
        .slice(6, -1)
        .map((size) => size * embedMs);
      expect(sizes.length).toBeGreaterThan(3);
      expect(Math.min(...sizes)).toBeGreaterThanOrEqual(12);
      expect(Math.max(...sizes)).toBeLessThanOrEqual(300);
      expect(await harness.findLeftovers()).toEqual(noLeftovers);
    }
  });

  it("are refused for a text that is too long, and the error has the index of the text", async () => {
    harness = new SchedulerHarness({ contextTokens: 100, embedMs: 5 });
    const texts = Array.from({ length: 200 }, () => "fits well enough");
    texts[170] = "x".repeat(101);
    const result = embed(texts);
    await harness.until(() => result.over, "it is over");
    expect(result.error).toMatchObject({ code: "context_length_exceeded", param: "input[170]" });
    expect(String(result.error)).toMatch(/101 tokens.* 100 /);
    const other = embed(["still works"]);
    await harness.until(() => other.over, "it is over");
    expect(other.value?.tokens).toEqual([11]);
  });

  it("end when the client aborts, before the start or while the runner embeds some of the texts", async () => {
    harness = new SchedulerHarness({ embedMs: 5 });
    const texts = Array.from({ length: 1_000 }, () => "a short text");
    const leaving = new AbortController();
    const first = embed(texts, "interactive", leaving.signal);
    const second = embed(texts, "interactive", leaving.signal);
    await harness.until(() => embedCalls().length === 2, "the second piece is under way");
    const reason = new Error("cancelled");
    leaving.abort(reason);
    await harness.clock.settle();
    expect([first.error, second.error]).toEqual([reason, reason]);
    // The runner receives the abort signal while it embeds texts.
    await harness.clock.advance(5);
    expect(harness.runner.busy).toBeUndefined();
    await harness.clock.advance(10_000);
    expect(embedCalls()).toHaveLength(2);
    const late = embed(["x"], "interactive", leaving.signal);
    await harness.until(() => late.over, "it is over");
    expect(late.error).toBe(reason);
  });

  it("do not stop an answer: at most one batch of texts is embedded between two decoding steps", async () => {
    harness = new SchedulerHarness({ embedMs: 5, script: endless });
    const reader = harness.ask("x", { maxTokens: 50 });
    await harness.until(() => reader.text.length > 0, "it answers");
    const result = embed(Array.from({ length: 1_000 }, () => "a short text"));
    await harness.untilOver(reader);
    expect(result.over).toBe(false);
    const kinds = harness.runner.calls.map(({ kind }) => kind).join(" ");
    expect(kinds.slice(0, kinds.lastIndexOf("step"))).not.toContain("embed embed");
    await harness.until(() => result.over, "it is over");
  });

  it("with background priority wait for interactive work, but single texts are embedded meanwhile so that they do not starve", async () => {
    harness = new SchedulerHarness({ embedMs: 5, script: endless });
    const result = embed(
      Array.from({ length: 400 }, () => "a short text"),
      "background",
    );
    await harness.until(() => embedCalls().length === 2, "a piece is under way");
    const reader = harness.ask("x", { maxTokens: 100 });
    await harness.until(() => reader.started !== undefined, "it has begun");
    const before = embedCalls().length;
    await harness.untilOver(reader);
    const during = embedCalls().slice(before);
    expect(during.filter((count) => count === 1)).toHaveLength(3);
    expect(during.filter((count) => count > 1).length).toBeLessThanOrEqual(1);
    await harness.until(() => result.over, "it is over");
    expect(result.value?.tokens).toHaveLength(400);
  });

  it("for an interactive request pause background answers", async () => {
    harness = new SchedulerHarness({ embedMs: 5, script: endless });
    const reader = harness.askInBackground("x", { maxTokens: 50 });
    await harness.until(() => reader.text.length > 0, "it answers");
    const before = harness.runner.calls.length;
    const result = embed(Array.from({ length: 300 }, () => "a short text"));
    await harness.until(() => result.over, "it is over");
    const last = harness.runner.calls.findLastIndex(({ kind }) => kind === "embed");
    const during = harness.runner.calls.slice(before, last + 1);
    expect(during.filter(({ kind }) => kind === "step").length).toBeLessThanOrEqual(1);
    await harness.untilOver(reader);
  });
});
