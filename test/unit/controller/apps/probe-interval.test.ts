import { expect, test } from "vitest";
import { getStartupInterval } from "../../../../src/controller/apps/probe-interval.ts";
import { resolveAppDefaults } from "../../../../src/resources/app-defaults.ts";

const { healthCheck } = resolveAppDefaults({ image: "web:1", port: 80 });

test("the delay between probes is 20 ms at first, and then an eightieth of the time since the first probe", () => {
  const delays = [0, 1_600, 4_000, 24_000, 90_000].map((watchedMs) =>
    getStartupInterval(healthCheck, { watchedMs, starting: 1 }),
  );
  expect(delays).toEqual([20, 20, 50, 300, 1_000]);
});

test("a health check that runs a command is repeated less often, because each run starts a process", () => {
  const command = { ...healthCheck, probe: { type: "command", command: ["true"] } as const };
  const delays = [0, 300, 1_000, 5_000].map((watchedMs) =>
    getStartupInterval(command, { watchedMs, starting: 1 }),
  );
  expect(delays).toEqual([50, 150, 500, 1_000]);
});

test("hundreds of starting containers are probed no more than 200 times a second together", () => {
  expect(getStartupInterval(healthCheck, { watchedMs: 0, starting: 100 })).toBe(500);
});
