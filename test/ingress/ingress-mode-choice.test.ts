import { afterEach, describe, expect, it } from "vitest";
import { systemClock } from "../../src/base/clock.ts";
import { CaddyHarness } from "../support/caddy-harness.ts";
import { FakeRuntime } from "../support/fake-runtime.ts";

/** Tests of the mode that `--ingress auto` chooses, which depends on the machine and on the previous mode. */

const IMAGE = "caddy:2";
let harness: CaddyHarness | undefined;
let runtime: FakeRuntime;

afterEach(async () => {
  runtime.engine.setReachable(true);
  await harness?.[Symbol.asyncDispose]();
  harness = undefined;
});

/** Opens an ingress on a machine without a Caddy, so that it chooses a container if the engine has the image. */
async function open(hasImage: boolean): Promise<CaddyHarness> {
  runtime = new FakeRuntime({ clock: systemClock, images: hasImage ? { [IMAGE]: {} } : {} });
  harness = await CaddyHarness.open({ ingress: "auto", searchPath: "/nowhere", runtime });
  return harness;
}

function loseImage(): void {
  runtime.engine.localImages.delete(IMAGE);
  runtime.engine.registry.delete(IMAGE);
}

async function expectReason(here: CaddyHarness, reason: string): Promise<void> {
  await here.waitUntil(
    () => here.ingress.state().message.includes(reason),
    () => here.ingress.state().message,
  );
  expect(here.ingress.state().ready).toBe(false);
}

describe("the container mode of an earlier start", () => {
  it.each([
    ["an engine that is away", () => runtime.engine.setReachable(false), "did not answer"],
    ["an image that cannot be pulled any more", loseImage, `no image ${IMAGE}`],
  ])(
    "stays the mode despite %s, and the ingress reports this problem",
    async (_what, happens, reason) => {
      const here = await open(true);
      expect(here.ingress.mode).toBe("container");
      await here.stopBerth();
      happens();
      await here.boot();
      expect(here.ingress.mode).toBe("container");
      await expectReason(here, reason);
    },
  );

  it("is kept without a check of its image, which would delay the start", async () => {
    const here = await open(true);
    await here.stopBerth();
    const before = runtime.calls.byName.get("inspectImage") ?? 0;
    runtime.faults = {
      beforeCall: ({ name }) => {
        if (name === "inspectImage") throw new Error("asked at the start");
      },
    };
    await here.boot();
    runtime.faults = {};
    expect(runtime.calls.byName.get("inspectImage") ?? 0).toBe(before);
    expect(here.ingress.mode).toBe("container");
  });
});

describe("the process mode of an earlier start", () => {
  it("remains the mode if caddy is missing and no image is available", async () => {
    const here = await open(false);
    here.store.settings.set("ingress.mode", "process");
    here.store.settings.set("ingress.ran", "process");
    await here.boot();
    expect(here.ingress.mode).toBe("process");
    await expectReason(here, "caddy is no longer installed on this machine; install Caddy");
  });
});

describe("the mode without an ingress", () => {
  it("is the mode of a machine without Caddy, until a Caddy is installed", async () => {
    const here = await open(false);
    expect(here.ingress.mode).toBe("off");
    await here.boot();
    expect(here.ingress.mode).toBe("off");
    runtime.engine.setImage(IMAGE, {});
    await here.boot();
    expect(here.ingress.mode).toBe("container");
  });
});
