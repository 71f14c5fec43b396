import { mkdirSync, renameSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";
import { temporaryFolder } from "../../../support/temporary-folder.ts";

let machine: string;
let link: string;
beforeEach(() => {
  machine = temporaryFolder("machine");
  mkdirSync(join(machine, "data"));
  link = join(machine, "link");
  symlinkSync(join(machine, "data"), link);
});

/** Replaces the link in one step, as an attacker would. */
function relink(target: string): void {
  symlinkSync(target, `${link}.new`);
  renameSync(`${link}.new`, link);
}

const spec = () => ({ image: "web:1", port: 80, volumes: [{ hostPath: link, path: "/data" }] });

describe("an App that mounts a folder of the machine through a link", () => {
  test("is not started again while the link leads to the data directory, and is started once the link is repaired", async () => {
    await using harness = new ControlPlaneHarness().boot();
    harness.apply("web", spec());
    await harness.waitUntilReady("web");
    relink(harness.dataDir);
    const [container] = harness.engine.containers();
    harness.engine.kill(container?.id ?? "");
    await harness.clock.advance(120_000);
    expect(harness.engine.containers().filter(({ state }) => state === "running")).toEqual([]);
    expect(harness.condition("web", "Ready")).toMatchObject({
      status: "False",
      reason: "MountRefused",
      message: expect.stringContaining(`${link} is the data directory of Berth`),
    });
    relink(join(machine, "data"));
    await harness.waitUntilReady("web", 600_000);
  });

  test("keeps its running version if the link now leads to a forbidden folder, which prevents the start of a new version", async () => {
    await using harness = new ControlPlaneHarness().boot();
    harness.apply("web", spec());
    await harness.waitUntilReady("web");
    relink("/");
    harness.apply("web", { ...spec(), image: "web:2" });
    await harness.clock.advance(60_000);
    const running = harness.engine.containers().filter(({ state }) => state === "running");
    expect(running.map(({ spec: { image } }) => image)).toEqual(["web:1"]);
  });
});
