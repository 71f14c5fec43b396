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

describe("the number of threads of a loaded model", () => {
  it("is the number that was measured for the kind of work, such as reading a prompt or generating tokens", () => {
    governor.prepare("decode");
    governor.prepare("prefill");
    governor.prepare("prefill");
    governor.prepare("embed");
    expect(set).toEqual([4, 2, 4]);
  });

  it("decreases while threads wait for each other in busy loops, and increases again later", () => {
    for (let count = 0; count < 3; count++) step(500);
    expect(changes).toEqual([3]);
    step(5);
    expect(set).toEqual([4, 3]);
    nowMs += 60_000;
    step(5);
    expect(set).toEqual([4, 3, 4]);
  });

  it("stays the same if steps are slow but no thread waits in a busy loop", () => {
    for (let count = 0; count < 10; count++) step(500, { spinning: false });
    expect(changes).toEqual([]);
  });

  it("stays the same if only few steps are slow, or if the number of streams explains the slowness", () => {
    for (let count = 0; count < 10; count++) {
      step(500);
      step(500);
      step(6);
      step(500, { streams: 8 });
    }
    expect(changes).toEqual([]);
  });

  it("is never below one", () => {
    for (let count = 0; count < 40; count++) step(500);
    expect(changes).toEqual([3, 2, 1]);
    expect(set.at(-1)).toBe(1);
  });

  it("is fixed during a measurement", () => {
    governor.force(3);
    governor.prepare("prefill");
    governor.force(undefined);
    governor.prepare("prefill");
    expect(set).toEqual([3, 2]);
  });
});
