import { existsSync, mkdirSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { AppSpec } from "../../../../src/resources/app-spec.ts";
import { STACK_LABEL } from "../../../../src/resources/stack.ts";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";
import { applyResource } from "../../../support/test-store.ts";

const actor = { name: "test", scope: "admin" } as const;
const SHARED = "berth--0123abcd-blog_media";

const shared: AppSpec = {
  image: "web:1",
  volumes: [
    { name: "media", path: "/media", shared: true },
    { name: "own", path: "/own" },
  ],
  folders: [
    { name: "config", path: "/config", shared: true },
    { name: "own", path: "/private", readOnly: true },
  ],
};

async function createStack(harness: ControlPlaneHarness, specs: Record<string, AppSpec>) {
  for (const [name, spec] of Object.entries(specs))
    applyResource(harness.store, "App", name, spec, { labels: { [STACK_LABEL]: "blog" } });
  for (const name of Object.keys(specs)) await harness.waitUntilReady(name);
}

function remove(harness: ControlPlaneHarness, name: string, deleteVolumes = true): void {
  harness.store.delete("App", name, { manager: "api", actor, deleteVolumes });
}

const isGone = (harness: ControlPlaneHarness, ...names: readonly string[]) =>
  harness.clock.until(
    () => names.every((name) => !harness.app(name)),
    120_000,
    `${names.join(" and ")} are gone`,
  );

describe("data with shared: true", () => {
  test("is one volume and one folder for all apps of the stack, and other data is apart", async () => {
    await using harness = new ControlPlaneHarness().boot();
    await createStack(harness, { "blog-web": shared, "blog-worker": shared });
    const mounts = ["blog-web", "blog-worker"].map((name) => {
      const [container] = harness.listContainers(name);
      return (container?.spec.mounts ?? []).map((mount) => [
        mount.type === "volume" ? mount.volume : mount.hostPath.replace(harness.dataDir, ""),
        mount.path,
        mount.readOnly,
      ]);
    });
    expect(mounts).toEqual(
      ["blog-web", "blog-worker"].map((name) => [
        [SHARED, "/media", false],
        [`berth-0123abcd-${name}-own`, "/own", false],
        ["/folders/stacks/blog/config", "/config", false],
        [`/folders/apps/${name}/own`, "/private", true],
      ]),
    );
    expect(harness.engine.volumes.get(SHARED)).toEqual({
      "dev.berth.instance": "0123abcd",
      "dev.berth.stack": "blog",
      "dev.berth.volume": "media",
    });
  });

  test("is deleted with the last app that uses it, and never under an app that remains", async () => {
    await using harness = new ControlPlaneHarness().boot();
    await createStack(harness, {
      "blog-web": shared,
      "blog-worker": shared,
      "blog-other": { image: "web:1" },
    });
    const folder = join(harness.dataDir, "folders/stacks/blog/config");
    remove(harness, "blog-web");
    await isGone(harness, "blog-web");
    expect([...harness.engine.volumes.keys()]).toEqual([SHARED, "berth-0123abcd-blog-worker-own"]);
    expect(existsSync(folder)).toBe(true);
    expect(existsSync(join(harness.dataDir, "folders/apps/blog-web"))).toBe(false);
    remove(harness, "blog-worker");
    await isGone(harness, "blog-worker");
    expect([...harness.engine.volumes.keys()]).toEqual([]);
    expect(existsSync(folder)).toBe(false);
    expect(harness.isReady("blog-other")).toBe(true);
  });

  test("is deleted if all apps of the stack are deleted at once, also what no spec names any more", async () => {
    await using harness = new ControlPlaneHarness().boot();
    await createStack(harness, { "blog-web": shared, "blog-worker": shared });
    await createStack(harness, {
      "blog-web": { image: "web:2" },
      "blog-worker": { image: "web:2" },
    });
    expect(harness.engine.volumes.has(SHARED)).toBe(true);
    remove(harness, "blog-web");
    remove(harness, "blog-worker");
    await isGone(harness, "blog-web", "blog-worker");
    expect([...harness.engine.volumes.keys()]).toEqual([]);
    expect(existsSync(join(harness.dataDir, "folders/stacks/blog"))).toBe(false);
  });

  test("stays if the last app that uses it is deleted without its data", async () => {
    await using harness = new ControlPlaneHarness().boot();
    await createStack(harness, { "blog-web": shared, "blog-worker": shared });
    remove(harness, "blog-web");
    remove(harness, "blog-worker", false);
    await isGone(harness, "blog-web", "blog-worker");
    expect(harness.engine.volumes.has(SHARED)).toBe(true);
    expect(existsSync(join(harness.dataDir, "folders/stacks/blog/config"))).toBe(true);
  });

  test("stays while a container of an app that uses it no longer still runs with it", async () => {
    await using harness = new ControlPlaneHarness({
      images: { "web:1": {}, "web:2": {}, "sick:1": { readyAfterMs: Number.POSITIVE_INFINITY } },
      ingress: "fake",
    }).boot();
    await createStack(harness, {
      "blog-web": shared,
      "blog-worker": {
        ...shared,
        port: 80,
        domain: "w.test",
        volumes: [{ name: "media", path: "/m", shared: true, readOnly: true }],
        folders: [{ name: "config", path: "/c", shared: true, readOnly: true }],
      },
    });
    applyResource(
      harness.store,
      "App",
      "blog-worker",
      { image: "sick:1", port: 80, domain: "w.test", rollout: { progressDeadline: "1h" } },
      { labels: { [STACK_LABEL]: "blog" } },
    );
    await harness.clock.advance(5_000);
    remove(harness, "blog-web");
    await isGone(harness, "blog-web");
    expect(harness.engine.volumes.has(SHARED)).toBe(true);
    expect(existsSync(join(harness.dataDir, "folders/stacks/blog/config"))).toBe(true);
  });
});

describe("a folder", () => {
  const spec: AppSpec = { image: "web:1", folders: [{ name: "data", path: "/data" }] };

  test("is open to programs of any user, in a folder that other users of the machine cannot enter", async () => {
    await using harness = new ControlPlaneHarness().boot();
    harness.apply("web", spec);
    await harness.waitUntilReady("web");
    const mode = (path: string) => (statSync(join(harness.dataDir, path)).mode & 0o777).toString(8);
    expect(mode("folders/apps/web/data")).toBe("777");
    expect(mode("folders/apps/web")).toBe("700");
    expect(mode("folders")).toBe("700");
  });

  test("keeps its content over new versions, and is made again if it was removed", async () => {
    await using harness = new ControlPlaneHarness().boot();
    harness.apply("web", spec);
    await harness.waitUntilReady("web");
    const folder = join(harness.dataDir, "folders/apps/web/data");
    writeFileSync(join(folder, "kept"), "x");
    harness.apply("web", { ...spec, image: "web:2" });
    await harness.waitUntilReady("web");
    expect(existsSync(join(folder, "kept"))).toBe(true);
    rmSync(folder, { recursive: true });
    harness.engine.kill(harness.listContainers("web")[0]?.id ?? "");
    await harness.waitUntilReady("web");
    expect(statSync(folder).isDirectory()).toBe(true);
  });

  test("stays when its app is deleted without its data, and a new app of that name gets it", async () => {
    await using harness = new ControlPlaneHarness().boot();
    harness.apply("web", spec);
    await harness.waitUntilReady("web");
    writeFileSync(join(harness.dataDir, "folders/apps/web/data/kept"), "x");
    remove(harness, "web", false);
    await isGone(harness, "web");
    harness.apply("web", spec);
    await harness.waitUntilReady("web");
    expect(existsSync(join(harness.dataDir, "folders/apps/web/data/kept"))).toBe(true);
  });

  test("is deleted without following the links that the app has made in it", async () => {
    await using harness = new ControlPlaneHarness().boot();
    harness.apply("web", spec);
    await harness.waitUntilReady("web");
    const outside = join(harness.dataDir, "outside");
    mkdirSync(outside);
    writeFileSync(join(outside, "kept"), "x");
    symlinkSync(outside, join(harness.dataDir, "folders/apps/web/data/link"));
    remove(harness, "web");
    await isGone(harness, "web");
    expect(existsSync(join(harness.dataDir, "folders/apps/web"))).toBe(false);
    expect(existsSync(join(outside, "kept"))).toBe(true);
  });

  test("is not made if a file has its place, which the status says", async () => {
    await using harness = new ControlPlaneHarness().boot();
    mkdirSync(join(harness.dataDir, "folders/apps/web"), { recursive: true });
    writeFileSync(join(harness.dataDir, "folders/apps/web/data"), "");
    harness.apply("web", spec);
    await harness.clock.advance(5_000);
    expect(harness.listContainers("web")).toEqual([]);
    expect(harness.condition("web", "Ready")?.message).toContain("is not a folder: move it away");
  });

  test("needs an engine on this machine", async () => {
    await using harness = new ControlPlaneHarness();
    harness.engineLocation = "remote";
    harness.boot();
    harness.apply("web", spec);
    await harness.clock.advance(1_000);
    expect(harness.condition("web", "Ready")).toMatchObject({
      reason: "EngineElsewhere",
      message: expect.stringContaining("folders needs an engine on this machine"),
    });
  });
});

test("a plan names the owner of each volume and folder that it makes", async () => {
  await using harness = new ControlPlaneHarness().boot();
  applyResource(
    harness.store,
    "App",
    "blog-web",
    { ...shared, running: false },
    { labels: { [STACK_LABEL]: "blog" } },
  );
  const { operations } = await harness.manager.apps.plan(
    { name: "blog-web", spec: shared, annotations: {}, plannedResources: [] },
    AbortSignal.timeout(10_000),
  );
  const causes = operations
    .filter(({ operation }) => operation === "ensureVolume" || operation === "makeFolder")
    .map(({ cause }) => cause);
  expect(causes).toEqual([
    'the folder "config" that apps of the stack blog share',
    'the app\'s folder "own"',
    'the volume "media" that apps of the stack blog share',
    'the app\'s volume "own"',
  ]);
  expect(existsSync(join(harness.dataDir, "folders"))).toBe(false);
});
