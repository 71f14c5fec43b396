import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { BerthError } from "../../../../src/base/errors.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";

let first: ControlPlaneHarness;
let second: ControlPlaneHarness;

beforeEach(async () => {
  first = new ControlPlaneHarness().boot();
  first.apply("web", { image: "web:1", port: 80 });
  await first.waitUntilReady("web");
  second = new ControlPlaneHarness({ copyOf: first });
});
afterEach(async () => {
  await second[Symbol.asyncDispose]();
  await first[Symbol.asyncDispose]();
});

const ids = () => first.listContainers("web").map(({ id, state }) => `${id} ${state}`);

describe("two servers with one identity on one engine", () => {
  it("leave the containers alone: the second server writes nothing, and its status names the first server", async () => {
    const before = ids();
    second.boot();
    second.apply("web", { image: "web:2", port: 80 });
    await second.clock.advance(600_000);
    expect(second.runtime.calls.writes).toBe(0);
    expect(ids()).toEqual(before);
    expect(first.isReady("web")).toBe(true);
    expect(second.condition("web", "Ready")).toMatchObject({
      status: "Unknown",
      message: expect.stringMatching(/on test-host, data directory .*berth-harness.*, since 2030/),
    });
    expect(second.controlPlane.engine()).toMatchObject({
      connected: true,
      otherWriter: { host: "test-host", dataDir: first.dataDir },
    });
    expect(first.controlPlane.engine()).toMatchObject({ connected: true, otherWriter: null });
  });

  it("do not act while the engine is unreachable; the server that has lost the lease writes nothing afterwards", async () => {
    second.boot();
    await second.clock.advance(30_000);
    const before = ids();
    // The network between the first server and the engine is cut.
    first.runtime.faults = {
      beforeCall: () => {
        throw new BerthError("engine_unreachable", "the network is cut");
      },
    };
    await first.clock.advance(120_000);
    expect(second.controlPlane.engine()).toMatchObject({ otherWriter: null });
    first.runtime.faults = {};
    first.runtime.resetCalls();
    first.apply("web", { image: "web:2", port: 80 });
    await first.clock.advance(120_000);
    expect(first.runtime.calls.writes).toBe(0);
    expect(first.condition("web", "Ready")).toMatchObject({ status: "Unknown" });
    expect(second.isReady("web")).toBe(true);
    expect(ids()).toEqual(before);
    // The first server writes again once the second one is gone.
    await second.kill();
    await first.waitUntilReady("web");
    expect(first.listContainers("web").map(({ spec }) => spec.image)).toEqual(["web:2"]);
  });

  it("let the first restart at once on its data directory, although the second waits for the lease", async () => {
    second.boot();
    await second.clock.advance(10_000);
    await first.kill();
    first.boot();
    first.apply("web", { image: "web:2", port: 80 });
    await first.waitUntilReady("web", 20_000);
    expect(second.runtime.calls.writes).toBe(0);
  });
});
