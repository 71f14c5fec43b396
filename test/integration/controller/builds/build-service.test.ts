import { existsSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { Registry } from "prom-client";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { BerthError, NotFoundError } from "../../../../src/base/errors.ts";
import { buildMetrics } from "../../../../src/controller/builds/build-metrics.ts";
import { findAppOfImage } from "../../../../src/controller/engine-names.ts";
import {
  DEPLOYED_AT_ANNOTATION,
  SOURCE_REVISION_ANNOTATION,
} from "../../../../src/resources/resource.ts";
import {
  BuildServiceHarness,
  createCommitId,
  REPOSITORY,
  writeFiles,
} from "../../../support/build-service-harness.ts";
import { WAIT_OPTIONS } from "../../../support/wait-limits.ts";

const TOKEN = "planted-token-8c1f";

let bench: BuildServiceHarness;

beforeEach(() => {
  bench = new BuildServiceHarness();
});

afterEach(() => bench[Symbol.asyncDispose]());

describe("a build", () => {
  test("of a commit creates its image, and leaves no other files behind", async () => {
    const app = bench.apply("web");
    const source = await bench.waitUntilResolved(app);
    expect(source.image).toMatch(/^berth-0123abcd\/web:[0-9a-f]{16}$/);
    expect(await bench.waitUntilEnded(app, source)).toEqual({ type: "succeeded", id: 1 });
    const [image] = bench.builder.list("0123abcd");
    expect(image?.tags).toEqual([source.image]);
    expect(bench.store.builds.get(1)).toMatchObject({
      app: "web",
      state: "succeeded",
      source: REPOSITORY,
      revision: createCommitId("a"),
      image: source.image,
      imageBytes: image?.bytes,
      message: null,
    });
    expect(bench.store.ownedImages.list("web")).toEqual([source.image]);
    expect(bench.changedApps).toContain("web");
    expect(readdirSync(join(bench.dataDir, "builds"))).toEqual(["1.log"]);
  });

  test("gets the options of its spec, the limits of the configuration and all registries", async () => {
    bench.newService({
      limits: {
        concurrency: 1,
        memoryBytes: 2 ** 29,
        nanoCpus: 5e8,
        timeoutMs: 600_000,
        keep: 5,
        diskBytesMax: 2 ** 40,
      },
    });
    const auth = { server: "registry.example.org", username: "me", password: "secret-enough" };
    bench.applySecret("registry", auth, "registry");
    bench.git.files.set(createCommitId("a"), { "web/prod.Dockerfile": "FROM scratch\n" });
    const git = { url: REPOSITORY, ref: "main", path: "web", dockerfile: "prod.Dockerfile" };
    const build = { target: "final", args: { MODE: "fast" } };
    expect(
      await bench.waitUntilBuilt(bench.apply("web", { source: { git }, build })),
    ).toMatchObject({
      type: "succeeded",
    });
    expect(bench.builder.runs[0]?.options).toMatchObject({
      dockerfile: "prod.Dockerfile",
      target: "final",
      args: { MODE: "fast" },
      builder: "classic",
      auths: [auth],
      memoryBytes: 2 ** 29,
      nanoCpus: 5e8,
    });
  });

  test("of a Dockerfile in the spec gets it next to all files of the source, or no other files at all", async () => {
    const inline = "FROM scratch\nCOPY Dockerfile /kept\n";
    const alone = bench.apply("alone", { source: { empty: true }, build: { inline } });
    expect(await bench.waitUntilBuilt(alone)).toMatchObject({ type: "succeeded" });
    const archive = await bench.upload({ Dockerfile: "FROM other\n", "a.txt": "one" });
    const spec = { source: { archive }, build: { inline }, platform: "linux/arm64" };
    expect(await bench.waitUntilBuilt(bench.apply("both", spec))).toMatchObject({
      type: "succeeded",
    });
    const [first, second] = bench.builder.runs;
    expect(first?.options.dockerfile).toBe("Dockerfile");
    expect(second?.options).toMatchObject({
      dockerfile: "Dockerfile.inline",
      platform: "linux/arm64",
    });
    const logs = [1, 2].map((id) =>
      readFileSync(join(bench.dataDir, "builds", `${id}.log`), "utf8"),
    );
    expect(logs[0]).toContain("0 entries");
    expect(logs[1]).toContain("2 entries");
    for (const log of logs) expect(log).toContain("  COPY Dockerfile /kept");
  });

  test("of another Dockerfile in the spec, or for another platform, has another image", async () => {
    const references = new Set<string>();
    for (const spec of [
      { source: { empty: true as const }, build: { inline: "FROM a" } },
      { source: { empty: true as const }, build: { inline: "FROM b" } },
      { source: { empty: true as const }, build: { inline: "FROM b" }, platform: "linux/arm64" },
    ])
      references.add((await bench.waitUntilResolved(bench.apply("web", spec))).image);
    expect(references.size).toBe(3);
  });

  test("of an uploaded archive or of a folder succeeds like a build of a repository", async () => {
    const archive = await bench.upload({ Dockerfile: "FROM scratch\n" });
    expect(await bench.waitUntilBuilt(bench.apply("one", { source: { archive } }))).toMatchObject({
      type: "succeeded",
    });
    const folder = join(bench.sourceDir, "folder");
    writeFiles(folder, { Dockerfile: "FROM scratch\n", "a.txt": "one" });
    const local = { source: { local: folder } };
    const app = bench.apply("two", local);
    expect(await bench.waitUntilBuilt(app)).toMatchObject({ type: "succeeded" });
    expect(bench.store.builds.list({ limit: 9 }).map(({ source }) => source)).toEqual([
      "folder",
      "archive",
    ]);
    const before = await bench.waitUntilResolved(app);
    writeFiles(folder, { "a.txt": "two" });
    const asked = bench.apply("two", local, { [DEPLOYED_AT_ANNOTATION]: "2030-01-01T00:00:00Z" });
    expect((await bench.waitUntilResolved(asked)).revision).not.toBe(before.revision);
  });

  test("of a folder that was edited after its digest was computed fails, and the next one uses the new content", async () => {
    const folder = join(bench.sourceDir, "folder");
    writeFiles(folder, { Dockerfile: "FROM scratch\n", "a.txt": "one" });
    const app = bench.apply("web", { source: { local: folder } });
    const before = await bench.waitUntilResolved(app);
    writeFiles(folder, { "a.txt": "two" });
    expect(await bench.waitUntilEnded(app, before)).toMatchObject({
      type: "failed",
      reason: "SourceChanged",
      terminal: false,
    });
    bench.service.clearResult("web");
    const after = await bench.waitUntilResolved(app);
    expect(after.revision).not.toBe(before.revision);
    expect(await bench.waitUntilEnded(app, after)).toMatchObject({ type: "succeeded" });
  });

  test.each(["folder", "folder/inner"])(
    "of a folder fails if a link to the data directory has replaced %s since its digest was computed",
    async (replaced) => {
      const files = { Dockerfile: "FROM scratch\n", "a.txt": "one" };
      const local = join(bench.sourceDir, "folder/inner");
      // The content is equal, so that only the place of the folder shows that it is another one.
      const own = join(bench.dataDir, "own");
      for (const folder of [local, own, join(own, "inner")]) writeFiles(folder, files);
      const app = bench.apply("web", { source: { local } });
      const source = await bench.waitUntilResolved(app);
      rmSync(join(bench.sourceDir, replaced), { recursive: true });
      symlinkSync(own, join(bench.sourceDir, replaced));
      expect(await bench.waitUntilEnded(app, source)).toMatchObject({
        type: "failed",
        reason: "SourceInvalid",
        message: expect.stringContaining("is in the data directory of Berth"),
      });
      expect(bench.builder.runs).toEqual([]);
    },
  );

  test("writes to its log that submodules are not fetched", async () => {
    bench.git.submodules = ["vendor/lib"];
    await bench.waitUntilBuilt(bench.apply("web"));
    expect((await bench.readLog(1)).join("\n")).toContain(
      "submodules are not fetched, and their folders stay empty: vendor/lib",
    );
  });

  test("of a source without a Dockerfile generates one, and shows it", async () => {
    bench.git.files.set(createCommitId("a"), { "public/index.html": "<h1>hi</h1>" });
    const build = { baseImage: "registry.example.org/caddy:2" };
    const spec = { source: { git: { url: REPOSITORY, ref: "main" } }, build };
    expect(await bench.waitUntilBuilt(bench.apply("web", spec))).toMatchObject({
      type: "succeeded",
    });
    const lines = (await bench.readLog(1)).join("\n");
    expect(lines).toContain("generated Dockerfile for a static site, served by Caddy");
    expect(lines).toContain("  FROM registry.example.org/caddy:2");
    expect(bench.builder.runs[0]?.options.dockerfile).toBe("Dockerfile");
  });

  test("that needs BuildKit uses BuildKit", async () => {
    const dockerfile = "FROM scratch\nRUN --mount=type=cache,target=/c true\n";
    bench.git.files.set(createCommitId("a"), { Dockerfile: dockerfile });
    await bench.waitUntilBuilt(bench.apply("web"));
    expect(bench.builder.runs[0]?.options.builder).toBe("buildkit");
  });

  test("is counted in the metrics", async () => {
    const registry = new Registry();
    bench.newService({ metrics: buildMetrics(registry) });
    await bench.waitUntilBuilt(bench.apply("web"));
    bench.builder.script = { fails: { step: 1 } };
    await bench.waitUntilBuilt(bench.apply("other"));
    const text = await registry.metrics();
    expect(text).toContain('berth_builds_total{result="succeeded"} 1');
    expect(text).toContain('berth_builds_total{result="failed"} 1');
    expect(text).toContain("berth_build_seconds_count 2");
    expect(text).toContain("berth_builds_waiting 0");
  });

  test("of a folder that is pinned to a revision fails if its content has changed since", async () => {
    const folder = join(bench.sourceDir, "folder");
    writeFiles(folder, { Dockerfile: "FROM scratch\n" });
    const spec = { source: { local: folder } };
    const { revision } = await bench.waitUntilResolved(bench.apply("web", spec));
    writeFiles(folder, { "a.txt": "edited" });
    const app = bench.apply("web", spec, { [SOURCE_REVISION_ANNOTATION]: revision });
    expect(await bench.waitUntilBuilt(app)).toMatchObject({
      reason: "SourceInvalid",
      terminal: true,
    });
    expect(bench.store.sourcePins.get("web")?.revision).toBe(revision);
  });

  test("reports its step while it runs, and its result until the result is cleared", async () => {
    bench.builder.script = { hangs: true, steps: ["FROM scratch", "RUN npm ci"] };
    const app = bench.apply("web");
    const source = await bench.waitUntilResolved(app);
    bench.service.ensure(app, source);
    await vi.waitFor(
      () =>
        expect(bench.service.ensure(app, source)).toEqual({
          type: "running",
          id: 1,
          message: "step 2 of 2: RUN npm ci",
        }),
      WAIT_OPTIONS,
    );
    expect(bench.builder.runs).toHaveLength(1);
  });

  test("waits while the engine's disk or Berth's data directory has too little free space", async () => {
    bench.newService({ freeBytesMin: 2 ** 30 });
    bench.builder.freeBytes = 3 * 2 ** 20;
    const app = bench.apply("web");
    const state = await bench.waitUntilBuilt(app);
    expect(state).toMatchObject({ type: "waiting", id: 1, retryAtMs: null });
    expect(state).toHaveProperty(
      "message",
      expect.stringContaining(
        "3 MiB are free on the disk of the engine's images, but a build needs 1 GiB",
      ),
    );
    await bench.clock.advance(3_600_000);
    expect(bench.store.builds.list({ limit: 10 })).toMatchObject([
      { id: 1, state: "queued", message: expect.stringContaining("3 MiB are free") },
    ]);
    expect(bench.builder.runs).toEqual([]);
    bench.builder.freeBytes = 2 ** 31;
    // The service sets the timer of its next check only when the disk has answered, so one advance of the clock may
    // come too early.
    await vi.waitFor(async () => {
      await bench.clock.advance(10_000);
      expect(bench.store.builds.get(1)?.state).toBe("succeeded");
    }, WAIT_OPTIONS);
    expect(await bench.waitUntilBuilt(app)).toEqual({ type: "succeeded", id: 1 });

    bench.newService({ freeBytesMin: 2 ** 60 });
    bench.builder.freeBytes = undefined;
    expect(await bench.waitUntilBuilt(bench.apply("other"))).toMatchObject({
      type: "waiting",
      message: expect.stringContaining("are free in Berth's data directory"),
    });
    expect(bench.builder.runs).toHaveLength(1);
  });
});

describe("a build that fails", () => {
  test("in a step reports the step and its last lines, until the result is cleared", async () => {
    bench.builder.script = {
      steps: ["FROM scratch", "RUN make"],
      fails: { step: 2, exitCode: 2, lines: ["cc: no such file", "make: *** [all] Error 2"] },
    };
    const app = bench.apply("web");
    const message =
      "step 2 of 2 (RUN make) failed with exit code 2; last lines: cc: no such file | make: *** [all] Error 2";
    const failed = { type: "failed", id: 1, reason: "BuildFailed", message, terminal: true };
    expect(await bench.waitUntilBuilt(app)).toEqual(failed);
    expect(bench.service.ensure(app, await bench.waitUntilResolved(app))).toEqual(failed);
    expect(bench.store.builds.get(1)).toMatchObject({ state: "failed", message });
    const lines = await bench.readLog(1);
    expect(lines).toContain("cc: no such file");
    expect(lines.at(-1)).toBe(`==> failed: ${message}`);
    expect(existsSync(join(bench.dataDir, "builds", "1"))).toBe(false);
    bench.service.clearResult("web");
    bench.builder.script = {};
    expect(await bench.waitUntilBuilt(app)).toEqual({ type: "succeeded", id: 2 });
  });

  test.each([
    ["image_not_found", "BuildFailed", true],
    ["registry_denied", "BuildFailed", true],
    ["engine_unreachable", "EngineUnreachable", false],
    ["engine_error", "EngineError", false],
  ] as const)("with the error %s has the reason %s", async (code, reason, terminal) => {
    bench.builder.script = { error: new BerthError(code, "no such luck") };
    expect(await bench.waitUntilBuilt(bench.apply("web"))).toMatchObject({ reason, terminal });
  });

  test.each([
    ["git_not_found", "SourceInvalid", true],
    ["payload_too_large", "SourceInvalid", true],
    ["git_unreachable", "GitUnreachable", false],
  ] as const)(
    "because of the source error %s has the reason %s",
    async (code, reason, terminal) => {
      const app = bench.apply("web");
      const source = await bench.waitUntilResolved(app);
      bench.git.failure = new BerthError(code, "no such luck");
      expect(await bench.waitUntilEnded(app, source)).toMatchObject({ reason, terminal });
    },
  );

  test("because a folder is missing in the repository reports the missing folder", async () => {
    const git = { url: REPOSITORY, ref: "main", path: "web/missing" };
    expect(await bench.waitUntilBuilt(bench.apply("web", { source: { git } }))).toMatchObject({
      reason: "SourceInvalid",
      message: `there is no folder "web/missing" in ${REPOSITORY} at aaaaaaaaaaaa; correct source.git.path`,
      terminal: true,
    });
  });

  test("because of a link out of the repository reads no file outside of the repository", async () => {
    const outside = join(bench.dataDir, "outside");
    writeFiles(outside, { Dockerfile: "FROM scratch\n" });
    bench.git.links.set("web", outside);
    const git = { url: REPOSITORY, ref: "main", path: "web" };
    expect(await bench.waitUntilBuilt(bench.apply("web", { source: { git } }))).toMatchObject({
      reason: "SourceInvalid",
    });
    expect(bench.builder.runs).toEqual([]);
  });

  test("because its archive is missing asks for another upload", async () => {
    const archive = await bench.upload({ Dockerfile: "FROM scratch\n" });
    const app = bench.apply("web", { source: { archive } });
    const source = await bench.waitUntilResolved(app);
    const [kept] = await bench.archives.list();
    expect(kept?.digest).toBe(archive);
    expect(kept && bench.archives.removeUnchanged(kept)).toBe(true);
    expect(await bench.waitUntilEnded(app, source)).toMatchObject({
      reason: "SourceInvalid",
      terminal: true,
      message: `the archive ${archive.slice(0, 12)} is not stored on this server; upload the archive again, for example with berth deploy`,
    });
  });

  test("because it fills the disk is tried again when there is more space than before, or when the user requests it", async () => {
    bench.newService();
    bench.builder.freeBytes = 2 ** 30;
    bench.builder.script = { error: new BerthError("disk_full", "the engine's disk is full") };
    const app = bench.apply("web");
    expect(await bench.waitUntilBuilt(app)).toMatchObject({
      type: "waiting",
      message: "the engine's disk is full",
    });
    await bench.clock.advance(30 * 60_000);
    expect(bench.builder.runs).toHaveLength(1);
    bench.apply("web", undefined, { "berth.dev/retried-at": "now" });
    await vi.waitFor(() => expect(bench.builder.runs).toHaveLength(2), WAIT_OPTIONS);
    await bench.waitUntilBuilt(app);
    bench.builder.script = {};
    bench.builder.freeBytes = 1.2 * 2 ** 30;
    // The service sets the timer of its next check only when the disk has answered, so one advance of the clock may
    // come too early.
    await vi.waitFor(async () => {
      await bench.clock.advance(10_000);
      expect(bench.store.builds.get(1)?.state).toBe("succeeded");
    }, WAIT_OPTIONS);
    expect(bench.builder.runs).toHaveLength(3);
    expect(bench.store.builds.list({ limit: 10 })).toHaveLength(1);
    expect((await bench.readLog(1)).join("\n")).toContain("==> waiting for space: the engine");
  });

  test("because it fills the disk of a remote engine is tried again every five minutes", async () => {
    bench.newService();
    bench.builder.freeBytes = undefined;
    bench.builder.script = { error: new BerthError("disk_full", "the engine's disk is full") };
    await bench.waitUntilBuilt(bench.apply("web"));
    for (let minute = 1; minute <= 20; minute += 1) {
      await bench.clock.advance(60_000);
      await vi.waitFor(
        () => expect(bench.builder.runs).toHaveLength(1 + Math.floor(minute / 5)),
        WAIT_OPTIONS,
      );
      await vi.waitFor(() => expect(bench.store.builds.get(1)?.state).toBe("queued"), WAIT_OPTIONS);
    }
    expect(bench.store.builds.list({ limit: 10 })).toHaveLength(1);
  });

  test("at its time limit reports the limit and the last step", async () => {
    bench.builder.script = { hangs: true, steps: ["FROM scratch", "RUN sleep infinity"] };
    const app = bench.apply("web");
    const source = await bench.waitUntilResolved(app);
    bench.service.ensure(app, source);
    await vi.waitFor(() => expect(bench.builder.runs[0]?.ended).toBe("running"), WAIT_OPTIONS);
    await bench.clock.advance(600_000);
    expect(await bench.waitUntilEnded(app, source)).toMatchObject({
      reason: "BuildTimedOut",
      terminal: true,
      message:
        "build 1 timed out after 600 s, at step 2 of 2: RUN sleep infinity; make the build faster, or set a longer --build-timeout",
    });
    expect(bench.builder.runs[0]?.ended).toBe("cancelled");
    expect(bench.store.builds.get(1)?.state).toBe("failed");
  });

  test("because its Git credential does not exist reports the command that creates the credential", async () => {
    const git = { url: REPOSITORY, ref: "main", credential: "deploy" };
    const app = bench.apply("web", { source: { git } });
    await vi.waitFor(
      () =>
        expect(bench.service.source(app)).toEqual({
          type: "failed",
          reason: "GitDenied",
          message:
            'source.git.credential names Secret "deploy", which does not exist; create the Secret with: berth secrets set deploy token=TOKEN',
          terminal: true,
        }),
      WAIT_OPTIONS,
    );
    bench.applySecret("deploy", { token: TOKEN });
    await bench.waitUntilResolved(app);
  });
});

describe("the queue of builds", () => {
  test("builds one app after the other, in the order of their requests", async () => {
    bench.builder.script = { hangs: true };
    const apps = ["one", "two", "three"].map((name) => bench.apply(name));
    const sources = await Promise.all(apps.map((app) => bench.waitUntilResolved(app)));
    const states = apps.map((app, index) => bench.service.ensure(app, at(sources, index)));
    expect(states).toMatchObject([
      { type: "running", id: 1 },
      { type: "queued", id: 2, message: "waiting for another build to end" },
      { type: "queued", id: 3, message: "waiting for 2 other builds to end" },
    ]);
    await vi.waitFor(() => expect(bench.builder.runs).toHaveLength(1), WAIT_OPTIONS);
    bench.builder.script = {};
    expect(await bench.service.cancel(1)).toBe(true);
    expect(await bench.waitUntilEnded(at(apps, 1), at(sources, 1))).toMatchObject({
      type: "succeeded",
    });
    expect(await bench.waitUntilEnded(at(apps, 2), at(sources, 2))).toMatchObject({
      type: "succeeded",
    });
    expect(
      bench.builder.runs.map(({ options }) => findAppOfImage("0123abcd", options.tag)),
    ).toEqual(["one", "two", "three"]);
  });

  test("cancels running and queued builds that an app no longer needs", async () => {
    bench.builder.script = { hangs: true };
    const app = bench.apply("web");
    const first = await bench.waitUntilResolved(app);
    bench.service.ensure(app, first);
    await vi.waitFor(() => expect(bench.builder.runs).toHaveLength(1), WAIT_OPTIONS);
    const second = { revision: createCommitId("b"), image: "berth-0123abcd/web:b" };
    const third = { revision: createCommitId("c"), image: "berth-0123abcd/web:c" };
    bench.builder.script = {};
    expect(bench.service.ensure(app, second)).toMatchObject({ type: "queued", id: 2 });
    expect(bench.service.ensure(app, third)).toMatchObject({ type: "queued", id: 3 });
    expect(await bench.waitUntilEnded(app, third)).toEqual({ type: "succeeded", id: 3 });
    expect(bench.builder.runs.map(({ ended }) => ended)).toEqual(["cancelled", "succeeded"]);
    expect([1, 2].map((id) => bench.store.builds.get(id))).toMatchObject([
      { state: "cancelled", message: "superseded by build 2" },
      { state: "cancelled", message: "superseded by build 3" },
    ]);
    expect(await bench.readLog(2)).toEqual(["==> cancelled: superseded by build 3"]);
  });

  test("keeps the place of an app that requests a newer revision", async () => {
    bench.builder.script = { hangs: true };
    const [busy, web, last] = ["busy", "web", "last"].map((name) => bench.apply(name));
    if (!busy || !web || !last) throw new Error("three apps were applied");
    bench.service.ensure(busy, await bench.waitUntilResolved(busy));
    bench.service.ensure(web, await bench.waitUntilResolved(web));
    bench.service.ensure(last, await bench.waitUntilResolved(last));
    const newer = { revision: createCommitId("b"), image: "berth-0123abcd/web:b" };
    expect(bench.service.ensure(web, newer)).toMatchObject({
      type: "queued",
      id: 4,
      message: "waiting for another build to end",
    });
  });

  test("ends a build that is cancelled, and does not start it again on its own", async () => {
    bench.builder.script = { hangs: true };
    const app = bench.apply("web");
    const source = await bench.waitUntilResolved(app);
    bench.service.ensure(app, source);
    await vi.waitFor(() => expect(bench.builder.runs).toHaveLength(1), WAIT_OPTIONS);
    expect(await bench.service.cancel(1)).toBe(true);
    expect(bench.service.ensure(app, source)).toMatchObject({
      type: "failed",
      reason: "BuildCancelled",
      terminal: true,
    });
    expect(bench.store.builds.get(1)?.state).toBe("cancelled");
    expect(bench.builder.runs[0]?.ended).toBe("cancelled");
    expect(await bench.service.cancel(1)).toBe(false);
    await expect(bench.service.cancel(99)).rejects.toThrow(NotFoundError);
  });
});

describe("the log of a build", () => {
  test("can be followed to its end, and read afterwards", async () => {
    bench.builder.script = { hangs: true, steps: ["FROM scratch", "RUN make"], lines: ["working"] };
    const app = bench.apply("web");
    bench.service.ensure(app, await bench.waitUntilResolved(app));
    const reader = bench.readLog(1, true);
    await vi.waitFor(async () => expect(await bench.readLog(1)).toContain("working"), WAIT_OPTIONS);
    const late = bench.readLog(1, true);
    await bench.service.cancel(1);
    const lines = await reader;
    expect(lines).toEqual(await late);
    expect(lines).toEqual(await bench.readLog(1));
    expect(lines[0]).toBe(`==> build 1 of web: ${REPOSITORY} at ${createCommitId("a")}`);
    expect(lines).toContain("step 2 of 2: RUN make");
    expect(lines.at(-1)).toBe(
      "==> cancelled: build 1 was cancelled; deploy again to start a new build",
    );
  });

  test("reports that a log was removed, and that a build does not exist", async () => {
    await bench.waitUntilBuilt(bench.apply("web"));
    rmSync(join(bench.dataDir, "builds", "1.log"));
    expect(await bench.readLog(1, true)).toEqual(["(the log of build 1 has been removed)"]);
    await expect(bench.readLog(99)).rejects.toThrow(NotFoundError);
  });

  test("shows no secret that the build could print, and neither do records and events", async () => {
    bench.applySecret("deploy", { token: TOKEN, username: "robot" });
    bench.applySecret("app", { key: "app-secret-value" });
    bench.applySecret(
      "registry",
      { server: "registry.example.org", username: "me", password: "registry-password" },
      "registry",
    );
    bench.builder.script = {
      steps: ["FROM registry.example.org/base", `RUN echo ${TOKEN}`],
      fails: { step: 2, lines: [`x${TOKEN}x`, "app-secret-value", "registry-password", "robot"] },
    };
    const app = bench.apply("web", {
      source: { git: { url: REPOSITORY, ref: "main", credential: "deploy" } },
      env: { KEY: { secret: "app" } },
    });
    const state = await bench.waitUntilBuilt(app);
    expect(bench.git.remotes.at(-1)?.credential).toMatchObject({ token: TOKEN });
    const said = JSON.stringify([
      state,
      await bench.readLog(1),
      bench.store.builds.get(1),
      bench.events(),
      bench.builder.runs,
    ]);
    for (const value of [TOKEN, "app-secret-value"]) expect(said).not.toContain(value);
    expect((await bench.readLog(1)).join("\n")).not.toContain("registry-password");
    expect(said).toContain("x(secret)x");
    expect(said).toContain("robot");
    expect(said).toContain("registry.example.org/base");
  });

  test("shows no secret in the current step of a running build", async () => {
    bench.applySecret("deploy", { token: TOKEN });
    bench.builder.script = { steps: [`RUN login ${TOKEN}`], hangs: true };
    const git = { url: REPOSITORY, ref: "main", credential: "deploy" };
    const app = bench.apply("web", { source: { git } });
    const source = await bench.waitUntilResolved(app);
    bench.service.ensure(app, source);
    await vi.waitFor(
      () =>
        expect(bench.service.ensure(app, source)).toMatchObject({
          message: "step 1 of 1: RUN login (secret)",
        }),
      WAIT_OPTIONS,
    );
  });
});

function at<T>(items: readonly T[], index: number): T {
  const item = items[index];
  if (item === undefined) throw new Error(`there is no ${index}`);
  return item;
}
