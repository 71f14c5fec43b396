import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { BuildServiceOptions } from "../../../../src/controller/builds/build-service.ts";
import { findProtectedContent } from "../../../../src/controller/builds/protected-content.ts";
import { emptyReconcileState, type ReconcileState } from "../../../../src/resources/app-status.ts";
import { SOURCE_REVISION_ANNOTATION } from "../../../../src/resources/resource.ts";
import { BuildServiceHarness, createCommitId } from "../../../support/build-service-harness.ts";
import { WAIT_OPTIONS } from "../../../support/wait-limits.ts";

const MIB = 2 ** 20;
const HOUR_MS = 3_600_000;

let bench: BuildServiceHarness;

beforeEach(() => {
  bench = new BuildServiceHarness();
});

afterEach(() => bench[Symbol.asyncDispose]());

describe("after a crash of Berth", () => {
  test("builds that were running are marked as abandoned, and their files are removed", async () => {
    bench.builder.script = { hangs: true };
    const app = bench.apply("web");
    const source = await bench.waitUntilResolved(app);
    bench.service.ensure(app, source);
    bench.service.ensure(bench.apply("next"), await bench.waitUntilResolved(bench.apply("next")));
    await vi.waitFor(() => expect(bench.builder.runs).toHaveLength(1), WAIT_OPTIONS);
    const dir = join(bench.dataDir, "builds");
    expect(readdirSync(dir).toSorted()).toEqual(["1", "1.log", "2.log"]);
    writeFileSync(join(dir, "77.log"), "of a build that no record tells of\n");
    bench.kill();
    await bench.service.start();
    expect(bench.store.builds.list({ limit: 9 })).toMatchObject([
      { id: 2, state: "abandoned" },
      { id: 1, state: "abandoned", message: "Berth ended during this build" },
    ]);
    expect(readdirSync(dir).toSorted()).toEqual(["1.log", "2.log"]);
    expect((await bench.readLog(1, true)).at(-1)).toBe(
      "==> abandoned: Berth ended during this build",
    );
  });

  test("the interrupted build starts again only on request", async () => {
    bench.builder.script = { hangs: true };
    const app = bench.apply("web");
    const source = await bench.waitUntilResolved(app);
    bench.service.ensure(app, source);
    await vi.waitFor(() => expect(bench.builder.runs).toHaveLength(1), WAIT_OPTIONS);
    await bench.service[Symbol.asyncDispose]();
    expect(bench.store.builds.get(1)?.state).toBe("abandoned");
    expect(bench.builder.runs[0]?.ended).toBe("cancelled");
    bench.builder.script = {};
    bench.newService();
    await bench.service.start();
    expect(bench.store.builds.list({ limit: 9 })).toHaveLength(1);
    expect(await bench.waitUntilEnded(app, source)).toEqual({ type: "succeeded", id: 2 });
  });

  test("an image whose build was not recorded is attributed to its app", async () => {
    const app = bench.apply("web");
    await bench.waitUntilBuilt(app);
    const { image } = await bench.waitUntilResolved(app);
    bench.store.ownedImages.remove(image, "web");
    await bench.service.start();
    await vi.waitFor(
      () => expect(bench.store.ownedImages.list("web")).toEqual([image]),
      WAIT_OPTIONS,
    );
  });
});

test("a build whose image was complete before a kill is recorded as succeeded", async () => {
  const app = bench.apply("web");
  await bench.waitUntilBuilt(app);
  // This is the state after a kill that happened when the image was complete and its record was not yet written.
  bench.store.builds.mark(1, "running");
  bench.kill();
  await bench.service.start();
  await vi.waitFor(
    () => expect(bench.store.builds.get(1)).toMatchObject({ state: "succeeded", message: null }),
    WAIT_OPTIONS,
  );
  await expect
    .poll(async () => (await bench.readLog(1)).at(-1))
    .toMatch(/^==> built berth-0123abcd\/web:/);
  await expect.poll(() => bench.changedApps).toContain("web");
});

test("a build that a kill interrupted before it had an image stays abandoned", async () => {
  bench.builder.script = { hangs: true };
  const app = bench.apply("web");
  bench.service.ensure(app, await bench.waitUntilResolved(app));
  await vi.waitFor(() => expect(bench.builder.runs).toHaveLength(1), WAIT_OPTIONS);
  bench.kill();
  bench.builder.script = {};
  await bench.service.start();
  expect(await bench.waitUntilBuilt(app)).toEqual({ type: "succeeded", id: 2 });
  await vi.waitFor(() => expect(bench.store.ownedImages.list("web")).toHaveLength(1), WAIT_OPTIONS);
  expect(bench.store.builds.get(1)?.state).toBe("abandoned");
});

describe("the collection of builds and images", () => {
  test("keeps the newest images of each app, and records an event for the removed ones", async () => {
    const removed: string[] = [];
    bench.newService(limited({ keep: 2 }, { onImageRemoved: (image) => removed.push(image) }));
    const images = await buildAll("web", ["a", "b", "c", "d"]);
    await expect.poll(tags).toEqual(sorted(images.slice(2)));
    expect(removed).toEqual(images.slice(0, 2));
    expect(bench.store.ownedImages.list("web").toSorted()).toEqual(images.slice(2).toSorted());
    expect(bench.events()).toContain(
      "Normal ImagesCollected: 1 image of older builds removed (10 MiB)",
    );
  });

  test("runs half a minute after the last build, when the rollouts are over", async () => {
    bench.newService(limited({ keep: 1 }));
    const { byName } = bench.runtime.calls;
    for (const digit of ["a", "b"]) {
      await build("web", digit);
      await bench.clock.advance(29_000);
      expect(byName.get("listImages")).toBeUndefined();
    }
    expect(tags()).toHaveLength(2);
    await bench.clock.advance(1_000);
    await expect.poll(tags).toHaveLength(1);
    await bench.clock.advance(HOUR_MS);
    expect(byName.get("listImages")).toBe(1);
  });

  test("runs within five minutes of the first build, although each further build postpones it", async () => {
    bench.newService(limited({ keep: 1 }));
    for (let second = 0; second < 300; second += 20) {
      await build("web", `${second}`);
      await bench.clock.advance(20_000);
    }
    await expect.poll(tags).toHaveLength(1);
  });

  test("runs at once when a build waits for space", async () => {
    bench.newService(limited({ keep: 1 }, { freeBytesMin: 2 }));
    await build("web", "a");
    await bench.clock.advance(1_000);
    const newest = await build("web", "b");
    bench.builder.freeBytes = 1;
    const app = bench.apply("next");
    bench.service.ensure(app, await bench.waitUntilResolved(app));
    await expect.poll(tags).toEqual([newest]);
  });

  test("never removes images that run, that a spec needs, or that a rollback would use", async () => {
    bench.newService(limited({ keep: 10 }));
    const images = await buildAll("web", ["a", "b", "c", "d", "e", "f"]);
    const [running, good, quarantineTarget, stable, unwanted] = images;
    bench.engine.networks.set("net", {});
    const container = bench.engine.create({
      name: "web-1",
      image: running ?? "",
      labels: { "dev.berth.instance": "0123abcd", "dev.berth.app": "web" },
      env: [],
      network: "net",
      aliases: [],
      mounts: [],
      publish: [],
      stopGraceMs: 0,
    });
    const observed = bench.engine.observe(container);
    const guarded = findProtectedContent(bench.store, [observed], () => undefined);
    expect([...guarded.images]).toEqual([running, container.imageId]);
    const numbers = [good, quarantineTarget, stable].map((image, index) => revision(image, index));
    bench.store.revisions.mark("web", numbers[2] ?? 0, "stable", null);
    remember({
      good: numbers[0] ?? null,
      quarantine: {
        inputs: "",
        generation: 1,
        revertedTo: numbers[1] ?? 0,
        reason: "",
        message: "",
      },
    });
    bench.newService(limited({ keep: 1, diskBytesMax: 1 }));
    await bench.service.start();
    await expect.poll(tags).toEqual(sorted(images.filter((image) => image !== unwanted)));
  });

  test("keeps the image of a pinned commit, although it is the oldest image", async () => {
    const images = await buildAll("web", ["a", "b", "c"]);
    bench.apply("web", undefined, { [SOURCE_REVISION_ANNOTATION]: createCommitId("a") });
    bench.newService(limited({ keep: 1 }));
    await bench.service.start();
    await expect.poll(tags).toEqual(sorted([images[0], images[2]]));
  });

  test("removes the oldest images of all apps until the rest fits into the disk budget", async () => {
    const old = await buildAll("old", ["a", "b"]);
    await bench.clock.advance(HOUR_MS);
    const young = await buildAll("young", ["a", "b"]);
    bench.newService(limited({ diskBytesMax: 30 * MIB }));
    await bench.service.start();
    await expect.poll(tags).toEqual(sorted([old[1], ...young]));
  });

  test("removes no image that another instance or a user has made", async () => {
    const images = await buildAll("web", ["a", "b"]);
    const [image] = bench.builder.list("0123abcd");
    bench.engine.setImage("nginx:1", {});
    bench.engine.localImages.set("mine:1", { id: image?.id ?? "", image: {} });
    bench.newService(limited({ keep: 1, diskBytesMax: 1 }));
    await bench.service.start();
    await vi.waitFor(
      () => expect(bench.runtime.calls.byName.get("listImages")).toBeGreaterThan(2),
      WAIT_OPTIONS,
    );
    await bench.clock.settle();
    const names = [...bench.engine.localImages.keys()].toSorted();
    expect(names).toEqual([...images, "mine:1", "nginx:1"].toSorted());
  });

  test("removes archives that no app names, after a grace period", async () => {
    const [named, inRevision, loose, fresh] = await Promise.all(
      ["1", "2", "3", "4"].map((text) => uploadAlone(text)),
    );
    const before = Date.now() / 1000 - 7_200;
    bench.apply("web", { source: { archive: named ?? "" } });
    bench.store.revisions.ensure({
      app: "web",
      generation: 1,
      specHash: "x",
      spec: { source: { archive: inRevision ?? "" } },
      image: null,
      imageId: null,
    });
    for (const digest of [named, inRevision, loose])
      utimesSync(bench.archives.path(digest ?? ""), before, before);
    // The virtual clock is set to the real time, because the files have the machine's time.
    await bench.clock.advance(Math.max(0, Date.now() - bench.clock.now()));
    utimesSync(
      bench.archives.path(fresh ?? ""),
      bench.clock.now() / 1000,
      bench.clock.now() / 1000,
    );
    await bench.service.start();
    await vi.waitFor(
      async () =>
        expect(new Set((await bench.archives.list()).map(({ digest }) => digest))).toEqual(
          new Set([named, inRevision, fresh]),
        ),
      WAIT_OPTIONS,
    );
  });

  test("keeps an archive that is deployed or uploaded again while the collection runs", async () => {
    const [named, uploaded, loose] = [
      await uploadAlone("1"),
      await uploadAlone("2"),
      await uploadAlone("3"),
    ];
    // The upload uses the same bytes, because an archive that is packed again a second later would differ.
    const bytes = readFileSync(bench.archives.path(uploaded));
    // With two builds, the collection removes an image after it has planned which archives to remove. During the
    // removal of the image, the test deploys one archive and uploads another one again.
    await buildAll("web", ["a", "b"]);
    // A collection may still be running in the first service. The disposal waits until that collection has ended.
    await bench.service[Symbol.asyncDispose]();
    const remove = bench.runtime.removeImage.bind(bench.runtime);
    bench.runtime.removeImage = async (reference, signal) => {
      bench.apply("new", { source: { archive: named } });
      await bench.service.upload(
        (async function* () {
          yield bytes;
        })(),
        signal,
      );
      return remove(reference, signal);
    };
    bench.newService(limited({ keep: 1 }));
    const before = Date.now() / 1000 - 7_200;
    for (const digest of [named, uploaded, loose])
      utimesSync(bench.archives.path(digest), before, before);
    await bench.service.start();
    await expect.poll(() => bench.archives.has(loose)).toBe(false);
    const kept = (await bench.archives.list()).map(({ digest }) => digest);
    expect(sorted(kept)).toEqual(sorted([named, uploaded]));
  });

  test("keeps the records and logs of fifty builds of an app", async () => {
    const app = bench.apply("web");
    for (let number = 0; number < 60; number += 1) {
      const { id } = bench.store.builds.create({
        app: "web",
        generation: 1,
        source: "archive",
        revision: "x",
        image: "y",
      });
      bench.store.builds.mark(id, "failed");
      mkdirSync(join(bench.dataDir, "builds"), { recursive: true });
      writeFileSync(join(bench.dataDir, "builds", `${id}.log`), "over\n");
    }
    expect(await bench.waitUntilBuilt(app)).toMatchObject({ type: "succeeded" });
    await bench.clock.advance(60_000);
    await vi.waitFor(
      () => expect(readdirSync(join(bench.dataDir, "builds"))).toHaveLength(50),
      WAIT_OPTIONS,
    );
    const records = bench.store.builds.list({ app: "web", limit: 100 });
    expect(records.map(({ id }) => id)).toEqual(Array.from({ length: 50 }, (_, at) => 61 - at));
  });
});

describe("the deletion of an app", () => {
  test("removes the app's builds, logs, source pin and archives, except an archive that another app uses", async () => {
    const shared = await uploadAlone("shared");
    const own = await uploadAlone("own");
    bench.apply("other", { source: { archive: shared } });
    const before = bench.apply("web", { source: { archive: shared } });
    await bench.waitUntilBuilt(before);
    bench.store.revisions.ensure({
      app: "web",
      generation: 1,
      specHash: "x",
      spec: before.spec,
      image: null,
      imageId: null,
    });
    bench.builder.script = { hangs: true };
    const app = bench.apply("web", { source: { archive: own } });
    bench.service.ensure(app, await bench.waitUntilResolved(app));
    await vi.waitFor(() => expect(bench.builder.runs).toHaveLength(2), WAIT_OPTIONS);
    await bench.service.forget("web");
    expect(bench.builder.runs[1]?.ended).toBe("cancelled");
    expect(bench.store.builds.list({ app: "web", limit: 9 })).toEqual([]);
    expect(readdirSync(join(bench.dataDir, "builds"))).toEqual([]);
    expect(bench.store.sourcePins.get("web")).toBeUndefined();
    expect(await bench.archives.has(own)).toBe(false);
    expect(await bench.archives.has(shared)).toBe(true);
    expect(existsSync(join(bench.dataDir, "builds", "2"))).toBe(false);
  });

  test("keeps an archive that was uploaded again just before the deletion", async () => {
    const digest = await uploadAlone("same");
    bench.apply("web", { source: { archive: digest } });
    await uploadAlone("same");
    await bench.service.forget("web");
    expect(await bench.archives.has(digest)).toBe(true);
  });
});

function limited(
  limits: { keep?: number; diskBytesMax?: number },
  options: Partial<BuildServiceOptions> = {},
): Partial<BuildServiceOptions> {
  return {
    ...options,
    limits: {
      concurrency: 1,
      memoryBytes: undefined,
      nanoCpus: undefined,
      timeoutMs: 600_000,
      keep: 5,
      diskBytesMax: 2 ** 40,
      ...limits,
    },
  };
}

/**
 * Builds these commits one after the other, a minute apart. Afterwards the App needs only the image of the last commit.
 */
async function buildAll(app: string, digits: readonly string[]): Promise<string[]> {
  const images: string[] = [];
  for (const digit of digits) {
    images.push(await build(app, digit));
    await bench.clock.advance(60_000);
  }
  return images;
}

/** Builds one commit, and returns its image. */
async function build(app: string, digit: string): Promise<string> {
  bench.git.refs.set("main", createCommitId(digit));
  const asked = bench.apply(app, undefined, { "berth.dev/deployed-at": digit });
  const source = await bench.waitUntilResolved(asked);
  expect(await bench.waitUntilEnded(asked, source)).toMatchObject({ type: "succeeded" });
  bench.service.clearResult(app);
  return source.image;
}

function tags(): string[] {
  return bench.builder
    .list("0123abcd")
    .flatMap((image) => image.tags)
    .toSorted();
}

function sorted(names: readonly (string | undefined)[]): string[] {
  return names.map(String).toSorted();
}

function revision(image: string | undefined, index: number): number {
  return bench.store.revisions.ensure({
    app: "web",
    generation: 1,
    specHash: `hash-${index}`,
    spec: {},
    image: image ?? null,
    imageId: null,
  }).number;
}

function remember(memory: Partial<ReconcileState>): void {
  const uid = bench.store.get("App", "web")?.metadata.uid ?? "";
  bench.store.setStatus("App", "web", uid, {
    phase: "running",
    observedGeneration: 1,
    conditions: [],
    revisions: { attempted: null, applied: null, stable: null },
    containers: [],
    url: null,
    nextRetryAt: null,
    restarts: 0,
    memory: { ...emptyReconcileState, ...memory },
  });
}

async function uploadAlone(text: string): Promise<string> {
  return bench.upload({ Dockerfile: "FROM scratch\n", [`${text}.txt`]: text });
}
