import { describe, expect, it } from "vitest";
import { calibrate } from "../../../../../src/assistant/inference/llama/threads/calibrate.ts";

type Kind = "decode" | "prefill";

/** Simulates a machine. A formula gives the duration of each measurement, and only measurements advance the clock. */
function machine(times: (kind: Kind, threads: number, call: number) => number) {
  const calls: { kind: Kind; threads: number }[] = [];
  let nowMs = 0;
  return {
    calls,
    run: (cores: number) =>
      calibrate({
        cores,
        measure: async (kind, threads) => {
          const ms = times(kind, threads, calls.length);
          calls.push({ kind, threads });
          nowMs += ms;
          return ms;
        },
        now: () => nowMs,
        signal: new AbortController().signal,
      }),
  };
}

describe("the calibration of threads", () => {
  it("chooses the fastest number of threads, separately for answers and prompts", async () => {
    const { run } = machine((kind, threads) => (kind === "decode" ? 4 + threads : 40 / threads));
    expect(await run(8)).toEqual({
      calibration: { decodeThreads: 1, prefillThreads: 8, decodeMs: 5 },
      steady: true,
    });
  });

  it("measures nothing on one core", async () => {
    const { run, calls } = machine(() => 1);
    expect((await run(1)).calibration.decodeThreads).toBe(1);
    expect(calls).toEqual([]);
  });

  it("chooses fewer threads if more threads are hardly faster", async () => {
    const { run } = machine((_, threads) => 10 - threads * 0.1);
    expect((await run(4)).calibration).toMatchObject({ decodeThreads: 1, prefillThreads: 1 });
  });

  it("stops trying more threads when more threads are much slower", async () => {
    const { run, calls } = machine((_, threads) => (threads > 2 ? 5_000 : 10 / threads));
    expect((await run(4)).calibration).toMatchObject({ decodeThreads: 2, prefillThreads: 2 });
    expect(calls.filter(({ threads }) => threads === 3)).toHaveLength(2);
    expect(calls.some(({ threads }) => threads === 4)).toBe(false);
  });

  it("gives the same result if the machine is busy for a while", async () => {
    const { run } = machine((_, threads, call) => (8 / threads) * (call < 7 ? 30 : 1));
    expect((await run(4)).calibration).toMatchObject({ decodeThreads: 4, decodeMs: 2 });
  });

  it("is not steady if its measurements differ, and its result is then not stored", async () => {
    const { run } = machine((_, threads, call) => (10 / threads) * (1 + call));
    expect((await run(2)).steady).toBe(false);
  });

  it("ends within its time limit", async () => {
    const { run, calls } = machine((_, threads) => 20 / threads);
    await run(4);
    expect(calls.length * 20).toBeLessThan(1_500);
  });

  it("does not measure prompts of a large model, because that would take minutes", async () => {
    const { run, calls } = machine((_, threads) => 400 / threads);
    expect((await run(4)).calibration).toEqual({
      decodeThreads: 4,
      prefillThreads: 4,
      decodeMs: 100,
    });
    expect(calls.some(({ kind }) => kind === "prefill")).toBe(false);
  });
});
