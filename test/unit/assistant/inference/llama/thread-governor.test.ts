import { beforeEach, describe, expect, it } from "vitest";
import { ThreadGovernor } from "../../../../../src/assistant/inference/llama/threads/thread-governor.ts";

let nowMs = 0;
let cpuMs = 0;
let set: number[] = [];
let changes: number[] = [];
let governor: ThreadGovernor;

beforeEach(() => {
  nowMs = 0;
  cpuMs = 0;
  set = [];
  changes = [];
  governor = new ThreadGovernor({
    threadsMax: 4,
    setThreads: (threads) => set.push(threads),
    now: () => nowMs,
    cpuMs: () => cpuMs,
    onChange: ({ threads }) => changes.push(threads),
  });
  governor.adopt({ decodeThreads: 4, prefillThreads: 2, decodeMs: 5 });
});

function step(stepMs: number, { spinning = true, streams = 1 } = {}): void {
  governor.prepare("decode");
  nowMs += stepMs;
  cpuMs += spinning ? stepMs * 3 : stepMs * 0.1;
  governor.observe(stepMs, streams);
}

describe("the number of threads", () => {
  it("is what was measured, for each kind of work", () => {
    governor.prepare("decode");
    governor.prepare("prefill");
    governor.prepare("prefill");
    governor.prepare("embed");
    expect(set).toEqual([4, 2, 4]);
  });

  it("goes down when threads wait for each other spinning, and comes back later", () => {
    for (let count = 0; count < 3; count++) step(500);
    expect(changes).toEqual([3]);
    step(5);
    expect(set).toEqual([4, 3]);
    nowMs += 60_000;
    step(5);
    expect(set).toEqual([4, 3, 4]);
  });

  it("stays where a step is slow for another reason", () => {
    for (let count = 0; count < 10; count++) step(500, { spinning: false });
    expect(changes).toEqual([]);
  });

  it("stays where slow steps are few, or as slow as so many streams make them", () => {
    for (let count = 0; count < 10; count++) {
      step(500);
      step(500);
      step(6);
      step(500, { streams: 8 });
    }
    expect(changes).toEqual([]);
  });

  it("never goes below one", () => {
    for (let count = 0; count < 40; count++) step(500);
    expect(changes).toEqual([3, 2, 1]);
    expect(set.at(-1)).toBe(1);
  });

  it("is what a measurement asks for while it lasts", () => {
    governor.force(3);
    governor.prepare("prefill");
    governor.force(undefined);
    governor.prepare("prefill");
    expect(set).toEqual([3, 2]);
  });
});
