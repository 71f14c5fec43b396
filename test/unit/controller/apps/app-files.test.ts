import { chmodSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import type { AppSpec } from "../../../../src/resources/app-spec.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";
import { applyResource } from "../../../support/test-store.ts";

const config = (content: string): AppSpec => ({
  image: "web:1",
  port: 80,
  files: [{ path: "/etc/web.conf", content }],
});

/** Returns what the running containers of an App see: for each mounted file its content and its mode. */
function readMounts(harness: ControlPlaneHarness, app: string) {
  return harness
    .listContainers(app)
    .filter(({ state }) => state === "running")
    .map(({ spec }) =>
      spec.mounts.map((mount) => {
        if (mount.type !== "bind") throw new Error("a file is a bind mount");
        const mode = (statSync(mount.hostPath).mode & 0o777).toString(8);
        return [mount.path, readFileSync(mount.hostPath, "utf8"), mode, mount.readOnly];
      }),
    );
}

/** Lists the names below the folder of an App's files. */
function listFiles(harness: ControlPlaneHarness, app: string): string[] {
  try {
    return readdirSync(join(harness.dataDir, "files", app));
  } catch {
    return [];
  }
}

test("containers see the files of the spec and of Secrets read-only, with their modes", async () => {
  await using harness = new ControlPlaneHarness().boot();
  applyResource(harness.store, "Secret", "keys", { data: { tls: "a secret text" } });
  harness.apply("web", {
    image: "web:1",
    port: 80,
    files: [
      { path: "/etc/web.conf", content: "port 80\n" },
      { path: "/run/key", from: { secret: "keys", key: "tls" }, mode: "0400" },
    ],
  });
  await harness.waitUntilReady("web");
  expect(readMounts(harness, "web")).toEqual([
    [
      ["/etc/web.conf", "port 80\n", "444", true],
      ["/run/key", "a secret text", "400", true],
    ],
  ]);
  const folder = join(harness.dataDir, "files", "web");
  expect((statSync(folder).mode & 0o777).toString(8)).toBe("700");
});

test("a changed file is a new version, and the file of the old version is removed with its containers", async () => {
  await using harness = new ControlPlaneHarness().boot();
  harness.apply("web", config("one"));
  await harness.waitUntilReady("web");
  const before = listFiles(harness, "web");
  harness.apply("web", config("two"));
  await harness.waitUntilReady("web");
  await harness.clock.advance(120_000);
  expect(readMounts(harness, "web")).toEqual([[["/etc/web.conf", "two", "444", true]]]);
  expect(listFiles(harness, "web")).toHaveLength(1);
  expect(listFiles(harness, "web")).not.toEqual(before);
});

test("a changed value of a Secret replaces the containers that see it in a file", async () => {
  await using harness = new ControlPlaneHarness().boot();
  applyResource(harness.store, "Secret", "keys", { data: { tls: "first" } });
  harness.apply("web", { ...config(""), files: [{ path: "/key", from: { secret: "keys" } }] });
  await harness.waitUntilReady("web");
  applyResource(harness.store, "Secret", "keys", { data: { tls: "second" } });
  await harness.clock.advance(120_000);
  expect(readMounts(harness, "web")).toEqual([[["/key", "second", "444", true]]]);
});

test("files that were changed or removed by hand are written again before a container starts", async () => {
  await using harness = new ControlPlaneHarness().boot();
  harness.apply("web", config("one"));
  await harness.waitUntilReady("web");
  const [mount] = harness.listContainers("web")[0]?.spec.mounts ?? [];
  if (mount?.type !== "bind") throw new Error("a file is a bind mount");
  chmodSync(mount.hostPath, 0o600);
  writeFileSync(mount.hostPath, "changed");
  harness.engine.kill(harness.listContainers("web")[0]?.id ?? "");
  await harness.waitUntilReady("web");
  expect(readMounts(harness, "web")).toEqual([[["/etc/web.conf", "one", "444", true]]]);
  rmSync(dirname(mount.hostPath), { recursive: true });
  harness.engine.kill(harness.listContainers("web")[0]?.id ?? "");
  await harness.waitUntilReady("web");
  expect(readMounts(harness, "web")).toEqual([[["/etc/web.conf", "one", "444", true]]]);
});

test("the files of an app are removed with the app", async () => {
  await using harness = new ControlPlaneHarness().boot();
  harness.apply("web", config("one"));
  await harness.waitUntilReady("web");
  harness.store.delete("App", "web", { manager: "api", actor: { name: "test", scope: "admin" } });
  await harness.clock.until(() => !harness.app("web"), 60_000, "web is gone");
  expect(readdirSync(join(harness.dataDir, "files"))).toEqual([]);
});

test("a file whose Secret is missing keeps the app from running, and its message names the file", async () => {
  await using harness = new ControlPlaneHarness().boot();
  harness.apply("web", { ...config(""), files: [{ path: "/key", from: { secret: "gone" } }] });
  await harness.clock.advance(1_000);
  expect(harness.listContainers("web")).toEqual([]);
  expect(harness.condition("web", "Ready")).toMatchObject({
    reason: "SecretNotFound",
    message: expect.stringContaining('file /key needs Secret "gone"'),
  });
});

test("an app with files is refused while the engine is on another machine", async () => {
  await using harness = new ControlPlaneHarness();
  harness.engineLocation = "remote";
  harness.boot();
  harness.apply("web", config("one"));
  await harness.clock.advance(1_000);
  expect(harness.listContainers("web")).toEqual([]);
  expect(harness.condition("web", "Ready")).toMatchObject({
    status: "False",
    reason: "EngineElsewhere",
    message: expect.stringContaining("an engine on this machine"),
  });
  expect(listFiles(harness, "web")).toEqual([]);
});

test("a dry run names the files that it would write, writes none, and shows no content", async () => {
  await using harness = new ControlPlaneHarness().boot();
  applyResource(harness.store, "Secret", "keys", { data: { tls: "a secret text" } });
  const files: AppSpec["files"] = [{ path: "/key", from: { secret: "keys" } }];
  const report = await harness.manager.apps.plan(
    { name: "web", spec: { ...config(""), files }, annotations: {}, plannedResources: [] },
    AbortSignal.timeout(10_000),
  );
  expect(report.operations.map(({ operation, target }) => [operation, target])).toContainEqual([
    "writeFiles",
    "web",
  ]);
  expect(JSON.stringify(report)).not.toContain("a secret text");
  expect(listFiles(harness, "web")).toEqual([]);
});
