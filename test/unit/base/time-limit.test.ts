import { expect, test } from "vitest";
import { createTimeLimit } from "../../../src/base/time-limit.ts";

const never = new AbortController().signal;

function aborted(signal: AbortSignal): Promise<unknown> {
  return new Promise((resolve) => {
    signal.addEventListener("abort", () => resolve(signal.reason), { once: true });
  });
}

test("the signal of a time limit is aborted when the time is over, or earlier with its parent signal", async () => {
  using soon = createTimeLimit(never, 1);
  expect(await aborted(soon.signal)).toMatchObject({ name: "TimeoutError" });
  const parent = new AbortController();
  using later = createTimeLimit(parent.signal, 60_000);
  parent.abort("over");
  expect(later.signal.reason).toBe("over");
});

test.each([2 ** 31, 1e12, Number.POSITIVE_INFINITY])(
  "a time limit of %d ms, which no timer can hold, does not end at once",
  async (limitMs) => {
    using limit = createTimeLimit(never, limitMs);
    using after = createTimeLimit(never, 20);
    await aborted(after.signal);
    expect(limit.signal.aborted).toBe(false);
  },
);
