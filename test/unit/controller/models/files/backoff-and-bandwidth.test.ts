import { once } from "node:events";
import { describe, expect, it } from "vitest";
import { BerthError } from "../../../../../src/base/errors.ts";
import { BandwidthLimiter } from "../../../../../src/controller/models/files/bandwidth-limiter.ts";
import { DownloadBackoff } from "../../../../../src/controller/models/files/download-backoff.ts";
import type { DownloadProgress } from "../../../../../src/controller/models/files/port.ts";
import { ProgressReporter } from "../../../../../src/controller/models/files/progress-reporter.ts";
import { RequestGuard } from "../../../../../src/controller/models/files/request-guard.ts";
import { RetryableError } from "../../../../../src/controller/models/files/retryable-error.ts";
import { catchBerthError } from "../../../../support/catch-berth-error.ts";
import { VirtualClock } from "../../../../support/virtual-clock.ts";

const never = new AbortController().signal;
const cut = new BerthError("hub_unreachable", "cut");
const failed = () => new RetryableError("failed", cut);
const overloaded = (retryAfterMs?: number) =>
  new RetryableError("overloaded", cut, { retryAfterMs });

describe("DownloadBackoff", () => {
  const limits = { stallMs: 30_000, retryMs: 100, retriesMax: 3 };

  it("throws after retriesMax failures in a row; concurrent failures count once", async () => {
    const clock = new VirtualClock();
    const backoff = new DownloadBackoff(clock, limits, 4);
    for (let round = 0; round < 3; round += 1) {
      for (let connection = 0; connection < 4; connection += 1) backoff.recordFailure(failed(), 0);
      await clock.advance(10_000);
    }
    expect(catchBerthError(() => backoff.recordFailure(failed(), 0))).toMatchObject({
      code: "hub_unreachable",
    });
  });

  it("restarts the count of failures with every new byte", async () => {
    const clock = new VirtualClock();
    const backoff = new DownloadBackoff(clock, limits, 4);
    for (let bytes = 1; bytes < 20; bytes += 1) {
      backoff.recordFailure(failed(), bytes);
      await clock.advance(10_000);
    }
    // A number of received bytes that is smaller than before does not count as progress, so it does not restart the
    // count of failures.
    for (let round = 0; round < 2; round += 1) {
      backoff.recordFailure(failed(), 10);
      await clock.advance(10_000);
    }
    expect(catchBerthError(() => backoff.recordFailure(failed(), 10)).code).toBe("hub_unreachable");
  });

  it("waits for the time that the server requests, and halves the number of connections", async () => {
    const clock = new VirtualClock();
    const backoff = new DownloadBackoff(clock, limits, 4);
    backoff.recordFailure(overloaded(5_000), 0);
    expect(backoff.connectionsMax).toBe(2);
    let waited = false;
    void backoff.wait(never).then(() => (waited = true));
    await clock.advance(4_999);
    expect(waited).toBe(false);
    await clock.advance(1);
    expect(waited).toBe(true);
    backoff.recordFailure(overloaded(), 0);
    await clock.advance(10_000);
    backoff.recordFailure(overloaded(), 0);
    expect(backoff.connectionsMax).toBe(1);
  });
});

describe("BandwidthLimiter", () => {
  it("is shared: a download also waits for the bytes of other downloads", async () => {
    const clock = new VirtualClock();
    const bandwidth = new BandwidthLimiter(clock, 1_000);
    const over: number[] = [];
    const start = clock.now();
    for (let taker = 0; taker < 3; taker += 1)
      void bandwidth.acquire(1_000, never)?.then(() => over.push(clock.now() - start));
    await clock.advance(5_000);
    // The limiter allows a burst of a tenth of a second.
    expect(over).toEqual([900, 1_900, 2_900]);
  });

  it("causes no delay without a limit", () => {
    expect(
      new BandwidthLimiter(new VirtualClock(), undefined).acquire(1e12, never),
    ).toBeUndefined();
  });
});

describe("RequestGuard", () => {
  it("aborts a request after a time without data, but not while reading is paused", async () => {
    const clock = new VirtualClock();
    const limits = { stallMs: 1_000, retryMs: 1, retriesMax: 1 };
    using guard = new RequestGuard({ clock, limits }, never);
    await clock.advance(900);
    guard.touch();
    await clock.advance(900);
    expect(guard.signal.aborted).toBe(false);
    const over = new AbortController();
    const paused = guard.pauseWhile(once(over.signal, "abort").then(() => undefined));
    await clock.advance(60_000);
    expect(guard.signal.aborted).toBe(false);
    over.abort();
    await paused;
    await clock.advance(2_000);
    expect([guard.signal.aborted, guard.hasStalled]).toEqual([true, true]);
  });
});

describe("ProgressReporter", () => {
  it("reports at most ten times a second, only changes, and once at the end", async () => {
    const clock = new VirtualClock();
    let doneBytes = 0;
    const told: DownloadProgress[] = [];
    const look = () => ({ step: "downloading", doneBytes, totalBytes: 9 }) as const;
    const meter = new ProgressReporter(clock, look, (progress) => told.push(progress));
    for (let ms = 0; ms < 1_000; ms += 10) {
      doneBytes += 1;
      await clock.advance(10);
    }
    await clock.advance(5_000);
    expect(told.length).toBeLessThanOrEqual(12);
    expect(told.length).toBeGreaterThan(9);
    doneBytes = 1_000;
    meter[Symbol.dispose]();
    expect(told.at(-1)?.doneBytes).toBe(1_000);
    await clock.advance(5_000);
    expect(told.at(-1)?.doneBytes).toBe(1_000);
  });
});
