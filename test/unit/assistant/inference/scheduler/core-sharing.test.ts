import { describe, expect, it } from "vitest";
import type {
  CoreLease,
  RequestPriority,
} from "../../../../../src/assistant/inference/inference-engine.ts";
import { CoreArbiter } from "../../../../../src/assistant/inference/models/core-arbiter.ts";
import { noLeftovers, SchedulerHarness } from "../../../../support/scheduler-harness.ts";

/** Cores that another model holds until the test grants them. */
class HeldCores implements CoreLease {
  readonly requested: RequestPriority[] = [];
  waiting: RequestPriority | undefined;
  held = false;
  #grant: (() => void) | undefined;

  hold(priority: RequestPriority, signal: AbortSignal): Promise<void> {
    this.requested.push(priority);
    if (this.held) return Promise.resolve();
    this.waiting = priority;
    return new Promise((resolve, reject) => {
      this.#grant = resolve;
      signal.addEventListener("abort", () => {
        this.waiting = undefined;
        reject(signal.reason);
      });
    });
  }

  give(): void {
    this.held = true;
    this.waiting = undefined;
    this.#grant?.();
  }

  release(): void {
    this.held = false;
  }

  onContest(): () => void {
    return () => {};
  }
}

const endless = () => ({ tokens: Array.from({ length: 200 }, () => "word ") });

describe("the cores that models share", () => {
  it("are requested before each runner call, and released when the scheduler is idle", async () => {
    const cores = new HeldCores();
    const harness = new SchedulerHarness({ script: endless }, cores);
    const reader = harness.askInBackground("x", { maxTokens: 5 });
    await harness.clock.advance(1_000);
    expect(harness.steps).toEqual([]);
    expect(cores.waiting).toBe("background");
    cores.give();
    await harness.untilOver(reader);
    expect(cores.requested).toEqual(Array.from({ length: 5 }, () => "background"));
    expect(cores.held).toBe(false);
    expect(await harness.findLeftovers()).toEqual(noLeftovers);
  });

  it("are requested again when a job with a higher priority arrives", async () => {
    const cores = new HeldCores();
    const harness = new SchedulerHarness({ sequences: 1, script: endless }, cores);
    const background = harness.askInBackground("b", { maxTokens: 5 });
    await harness.clock.settle();
    expect(cores.waiting).toBe("background");
    const reader = harness.ask("i", { maxTokens: 5 });
    await harness.clock.settle();
    expect(cores.waiting).toBe("interactive");
    expect(cores.requested).toEqual(["background", "interactive"]);
    cores.give();
    await harness.untilOver(reader, background);
    expect(harness.steps[0]).toEqual(["i"]);
    expect(await harness.findLeftovers()).toEqual(noLeftovers);
  });

  it("are no longer requested after the job was cancelled or the scheduler is disposed", async () => {
    const cores = new HeldCores();
    const harness = new SchedulerHarness({ script: endless }, cores);
    const leaving = new AbortController();
    const reader = harness.ask("x", {}, leaving);
    await harness.clock.settle();
    leaving.abort(new Error("cancelled"));
    await harness.clock.settle();
    expect(reader.isOver).toBe(true);
    expect(cores.waiting).toBeUndefined();
    expect(harness.scheduler.load).toEqual({ active: 0, queued: 0 });
    const last = harness.ask("y");
    await harness.clock.settle();
    await harness.scheduler[Symbol.asyncDispose]();
    expect(last.error).toMatchObject({ code: "shutting_down" });
    expect(await harness.findLeftovers()).toEqual(noLeftovers);
  });

  it("pass from one model to another between two steps, to interactive work first", async () => {
    const probe = new SchedulerHarness();
    const arbiter = new CoreArbiter({ clock: probe.clock });
    const one = new SchedulerHarness({ script: endless }, arbiter.createCores());
    const background = one.askInBackground("b", { maxTokens: 100 });
    await one.until(() => background.text.length > 0, "it answers");
    const steps = one.steps.length;
    const two = new SchedulerHarness(
      { script: endless, stepMs: 0, prefillMs: 0 },
      arbiter.createCores(),
    );
    const reader = two.ask("i", { maxTokens: 20 });
    await two.clock.settle();
    expect(two.steps).toEqual([]);
    await one.until(() => two.steps.length > 0, "the other model steps", 20);
    await reader.done;
    expect(one.steps.length).toBeLessThanOrEqual(steps + 1);
    await one.untilOver(background);
    expect(await one.findLeftovers()).toEqual(noLeftovers);
    expect(await two.findLeftovers()).toEqual(noLeftovers);
    expect(await probe.findLeftovers()).toEqual(noLeftovers);
  });
});
