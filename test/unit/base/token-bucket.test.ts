import { expect, test } from "vitest";
import { TokenBucket } from "../../../src/base/token-bucket.ts";
import { VirtualClock } from "../../support/virtual-clock.ts";

test("a token bucket allows a burst, then a steady rate", async () => {
  const clock = new VirtualClock();
  const bucket = new TokenBucket({ burst: 3, perSecond: 10 }, clock);
  const takes = (count: number) => Array.from({ length: count }, () => bucket.tryConsume());
  expect(takes(5)).toEqual([true, true, true, false, false]);
  await clock.advance(200);
  expect(takes(3)).toEqual([true, true, false]);
  await clock.advance(50);
  expect(takes(1)).toEqual([false]);
  await clock.advance(50);
  expect(takes(2)).toEqual([true, false]);
  await clock.advance(60_000);
  expect(takes(4)).toEqual([true, true, true, false]);
});
