import { renameSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { AppListCache } from "../../../src/api/app-list-cache.ts";
import { catchBerthError } from "../../support/catch-berth-error.ts";
import { ControlPlaneHarness } from "../../support/control-plane-harness.ts";

const web = { image: "web:1", port: 80 };

let harness: ControlPlaneHarness;

beforeEach(async () => {
  harness = new ControlPlaneHarness({ ingress: "fake" });
  harness.boot();
  harness.apply("web", web);
  await harness.waitUntilReady("web");
  // The version has been Ready for more than ten seconds, so it counts as stable.
  await harness.clock.advance(30_000);
});
afterEach(() => harness[Symbol.asyncDispose]());

const isRunning = () => harness.listContainers("web")[0]?.state === "running";
const killContainer = () => harness.engine.kill(harness.listContainers("web")[0]?.id ?? "", 1);

describe("without space on the disk of the data directory", () => {
  test("a version that has run is restarted, and its restarts are counted in memory until there is space", async () => {
    harness.isDiskFull = true;
    killContainer();
    await harness.clock.until(isRunning, 10_000, "the container runs again");
    await harness.clock.advance(10_000);
    expect(harness.isReady("web")).toBe(true);
    expect(harness.app("web")?.status?.restarts).toBe(1);
    const cache = new AppListCache(harness.store, "localhost");
    const listed = () => String(cache.getResponse({}, JSON.stringify));
    expect(listed()).toContain('"status":"running"');
    harness.engine.setReachable(false);
    await harness.clock.advance(5_000);
    expect(listed()).toContain('"status":"unknown"');
    harness.engine.setReachable(true);
    await harness.clock.advance(5_000);
    expect(harness.manager.disk.problem).toMatch(/^the disk of Berth's data directory is full/);
    const { code } = catchBerthError(() => harness.apply("web", { ...web, image: "web:2" }));
    expect(code).toBe("disk_full");

    harness.isDiskFull = false;
    await harness.clock.advance(6_000);
    expect(harness.manager.disk.problem).toBeNull();
    await harness.kill();
    harness.boot();
    expect(harness.app("web")?.status?.restarts).toBe(1);
  });

  test("a version without a leased address is restarted, and gets an address when there is space", async () => {
    harness.store.addresses.release("web");
    harness.isDiskFull = true;
    killContainer();
    await harness.clock.until(isRunning, 10_000, "the container runs again");
    expect(harness.store.addresses.get("web", 0)).toBeUndefined();
    harness.isDiskFull = false;
    await harness.clock.until(
      () => harness.store.addresses.get("web", 0) !== undefined,
      120_000,
      "an address is leased",
    );
  });

  test("a new version gets no requests while the switch to it cannot be recorded, and gets requests as soon as there is space", async () => {
    harness.apply("web", { ...web, image: "web:2" });
    await harness.clock.until(
      () => harness.listContainers("web").length === 2,
      10_000,
      "the new version is started",
    );
    harness.isDiskFull = true;
    await harness.clock.advance(2 * 60_000);
    expect(harness.listServedImages("web")).toEqual(["web:1"]);
    expect(harness.condition("web", "Stalled")).toMatchObject({ reason: "DiskFull" });

    harness.isDiskFull = false;
    await harness.clock.advance(6_000);
    expect(harness.listServedImages("web")).toEqual(["web:2"]);
    await harness.waitUntilReady("web", 15_000);
  });
});

test("a data directory that was removed is reported as a problem until it exists again", async () => {
  const file = join(harness.dataDir, "berth.db");
  renameSync(file, `${file}.away`);
  await harness.clock.advance(6_000);
  expect(harness.manager.disk.problem).toMatch(/was removed or unmounted/);
  renameSync(`${file}.away`, file);
  await harness.clock.advance(6_000);
  expect(harness.manager.disk.problem).toBeNull();
});
