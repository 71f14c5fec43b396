import { EventEmitter, once } from "node:events";
import { expect, test } from "vitest";
import {
  followWithinBounds,
  type SkippedLines,
} from "../../../../src/controller/logs/bounded-follow.ts";
import type { LogLine } from "../../../../src/controller/runtime/port.ts";
import { VirtualClock } from "../../../support/virtual-clock.ts";

/** The text of a log line. Ten such lines fill the buffer between the log stream and its reader. */
const MESSAGE = "x".repeat(100_000);

/** A log stream of an engine that yields `count` lines, which were all written at the same time. */
function stream(clock: VirtualClock, count: number) {
  const state = { given: 0 };
  async function* lines(): AsyncGenerator<LogLine> {
    const time = new Date(clock.now()).toISOString();
    for (; state.given < count; ) {
      state.given += 1;
      yield { time, stream: "stdout", message: MESSAGE };
    }
  }
  return { state, lines };
}

const count = (entries: readonly (LogLine | SkippedLines)[]) => ({
  lines: entries.filter((entry) => !("skipped" in entry)).length,
  skipped: entries.flatMap((entry) => ("skipped" in entry ? [entry.skipped] : [])),
});

test("a reader that is fast enough gets every line of a log", async () => {
  const clock = new VirtualClock();
  const entries: (LogLine | SkippedLines)[] = [];
  for await (const entry of followWithinBounds(stream(clock, 500).lines(), clock))
    entries.push(entry);
  expect(count(entries)).toEqual({ lines: 500, skipped: [] });
});

test("a log stream waits ten seconds for a slow reader, then skips lines, and reports the number of skipped lines at its end", async () => {
  const clock = new VirtualClock();
  const { state, lines } = stream(clock, 500);
  const reader = followWithinBounds(lines(), clock);
  const first = await reader.next();
  await clock.advance(9_000);
  expect(state.given).toBeLessThan(20);
  await clock.advance(2_000);
  expect(state.given).toBe(500);

  const entries: (LogLine | SkippedLines)[] = first.done ? [] : [first.value];
  for await (const entry of reader) entries.push(entry);
  const { lines: received, skipped } = count(entries);
  expect(skipped).toHaveLength(1);
  expect(received + (skipped[0] ?? 0)).toBe(500);
  expect(entries.at(-1)).toEqual({ skipped: skipped[0] });
});

test("a reader that was too slow gets the number of skipped lines, and then the next line", async () => {
  const clock = new VirtualClock();
  const app = new EventEmitter();
  const untilWritten = once(app, "written");
  async function* lines(): AsyncGenerator<LogLine> {
    yield* stream(clock, 50).lines();
    await untilWritten;
    yield { time: new Date(clock.now()).toISOString(), stream: "stdout", message: "last" };
  }
  const reader = followWithinBounds(lines(), clock);
  await reader.next();
  await clock.advance(11_000);
  app.emit("written");
  const entries: (LogLine | SkippedLines)[] = [];
  for await (const entry of reader) entries.push(entry);
  const [gap, last] = entries.slice(-2);
  expect(gap).toEqual({ skipped: 50 - 1 - (entries.length - 2) });
  expect(last).toMatchObject({ message: "last" });
});

test("the reader of a log gets the lines before an error of the stream, and then the error", async () => {
  const clock = new VirtualClock();
  const seen: string[] = [];
  const read = async () => {
    for await (const entry of followWithinBounds(failing(), clock))
      if (!("skipped" in entry)) seen.push(entry.message);
  };
  await expect(read()).rejects.toThrow("the engine is gone");
  expect(seen).toEqual(["one"]);
});

async function* failing(): AsyncGenerator<LogLine> {
  yield { time: "2030-01-01T00:00:00Z", stream: "stdout", message: "one" };
  await Promise.reject(new Error("the engine is gone"));
}
