import { expect, it } from "vitest";
import { TextRetention } from "../../../../src/assistant/ledger/text-retention.ts";
import { createRecordingLogger, type LogEntry } from "../../../support/recording-logger.ts";
import { forever } from "../../../support/scripted-service.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;

function start(keepMs: () => number | undefined) {
  const clock = new VirtualClock(100 * DAY_MS);
  const logged: LogEntry[] = [];
  const asked: number[] = [];
  const state = { isDown: false, isSlow: false };
  const ledger = {
    eraseBefore: async (beforeMs: number, signal?: AbortSignal) => {
      asked.push(beforeMs);
      if (state.isSlow && signal) await forever(signal);
      if (state.isDown) throw new Error("the ledger cannot be written");
      return { texts: 3, entries: 1, first: 1, last: 5 };
    },
  };
  const logger = createRecordingLogger(logged);
  const retention = new TextRetention({ ledger, keepMs, clock, logger });
  retention.start();
  return { clock, asked, logged, state, retention };
}

it("the ledger keeps all texts by default", async () => {
  const { clock, asked } = start(() => undefined);
  await clock.advance(3 * DAY_MS);
  expect(asked).toEqual([]);
});

it("the ledger erases texts that exceed the set age once a day, and reads the setting again each time", async () => {
  let keepMs: number | undefined = 90 * DAY_MS;
  const { clock, asked } = start(() => keepMs);
  await clock.advance(4 * MINUTE_MS);
  expect(asked).toEqual([]);
  await clock.advance(MINUTE_MS);
  const first = 10 * DAY_MS + 5 * MINUTE_MS;
  expect(asked).toEqual([first]);
  keepMs = 30 * DAY_MS;
  await clock.advance(DAY_MS);
  expect(asked).toEqual([first, first + 61 * DAY_MS]);
  keepMs = undefined;
  await clock.advance(DAY_MS);
  expect(asked).toHaveLength(2);
});

it("a failed erasure is logged, and is tried again a day later", async () => {
  const { clock, asked, logged, state } = start(() => DAY_MS);
  state.isDown = true;
  await clock.advance(5 * MINUTE_MS);
  expect(JSON.stringify(logged)).toContain("could not be erased");
  state.isDown = false;
  await clock.advance(DAY_MS);
  expect(asked).toHaveLength(2);
});

it("the ledger erases nothing after the retention of texts was stopped", async () => {
  const { clock, asked, retention } = start(() => DAY_MS);
  await retention[Symbol.asyncDispose]();
  await clock.advance(3 * DAY_MS);
  expect(asked).toEqual([]);
});

it("stopping the retention of texts interrupts a long erasure, without a log message", async () => {
  const { clock, asked, logged, state, retention } = start(() => DAY_MS);
  state.isSlow = true;
  await clock.advance(5 * MINUTE_MS);
  expect(asked).toHaveLength(1);
  await retention[Symbol.asyncDispose]();
  expect(logged).toEqual([]);
});
