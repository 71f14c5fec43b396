import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { AppSpec } from "../../../../src/resources/app-spec.ts";
import { DEPLOYED_AT_ANNOTATION } from "../../../../src/resources/resource.ts";
import {
  BuildServiceHarness,
  createCommitId,
  REPOSITORY,
} from "../../../support/build-service-harness.ts";
import { WAIT_OPTIONS } from "../../../support/wait-limits.ts";

const other: AppSpec = { source: { git: { url: REPOSITORY, ref: "other" } } };

let bench: BuildServiceHarness;

beforeEach(() => {
  bench = new BuildServiceHarness();
});

afterEach(() => bench[Symbol.asyncDispose]());

describe("an app's source", () => {
  test("is resolved again if the app changes to an image and back", async () => {
    const before = await bench.waitUntilResolved(bench.apply("web"));
    bench.apply("web", { image: "web:1" });
    bench.git.refs.set("main", createCommitId("b"));
    const after = await bench.waitUntilResolved(bench.apply("web"));
    expect([before.revision, after.revision]).toEqual([createCommitId("a"), createCommitId("b")]);
  });

  test("is resolved again if the app changes to a source that cannot be resolved, and back", async () => {
    await bench.waitUntilResolved(bench.apply("web"));
    const lost = bench.apply("web", other);
    await vi.waitFor(
      () => expect(bench.service.source(lost)).toMatchObject({ type: "failed" }),
      WAIT_OPTIONS,
    );
    bench.git.refs.set("main", createCommitId("b"));
    expect(await bench.waitUntilResolved(bench.apply("web"))).toMatchObject({
      revision: createCommitId("b"),
    });
  });

  test("is resolved again if the app changes to an image and back, even if a kill of Berth leaves the old commit pinned", async () => {
    await bench.waitUntilResolved(bench.apply("web"));
    const pin = bench.store.sourcePins.get("web");
    bench.apply("web", { image: "web:1" });
    if (pin) bench.store.sourcePins.set("web", pin);
    bench.kill();
    await bench.service.start();
    bench.git.refs.set("main", createCommitId("b"));
    expect(await bench.waitUntilResolved(bench.apply("web"))).toMatchObject({
      revision: createCommitId("b"),
    });
  });

  test("is not pinned by a resolution that began before the source was replaced", async () => {
    const app = bench.apply("web");
    bench.service.source(app);
    bench.apply("web", other);
    await vi.waitFor(() => expect(bench.git.remotes).toHaveLength(1), WAIT_OPTIONS);
    bench.git.refs.set("main", createCommitId("b"));
    expect(await bench.waitUntilResolved(bench.apply("web"))).toMatchObject({
      revision: createCommitId("b"),
    });
  });

  test("keeps its commit if only its polling interval and other fields of the app change", async () => {
    const git = { url: REPOSITORY, ref: "main" };
    await bench.waitUntilResolved(bench.apply("web"));
    bench.git.refs.set("main", createCommitId("b"));
    const app = bench.apply("web", { replicas: 2, source: { git: { ...git, interval: "1h" } } });
    expect(bench.service.source(app)).toMatchObject({ revision: createCommitId("a") });
    await bench.clock.advance(0);
  });

  test("is built again after a failed build if the app changes to another source and back", async () => {
    bench.builder.script = { fails: { step: 2 } };
    const app = bench.apply("web");
    const source = await bench.waitUntilResolved(app);
    bench.service.ensure(app, source);
    await vi.waitFor(() => expect(bench.store.builds.get(1)?.state).toBe("failed"), WAIT_OPTIONS);
    bench.apply("web", other);
    const again = bench.apply("web");
    bench.builder.script = {};
    expect(await bench.waitUntilBuilt(again)).toEqual({ type: "succeeded", id: 2 });
  });
});

describe("the build of an app", () => {
  test.each<[what: string, spec: AppSpec, message: string]>([
    ["an image", { image: "web:1" }, "the app no longer has a source"],
    ["another source", other, "the app has another source now"],
    [
      "a suspension",
      { source: { git: { url: REPOSITORY, ref: "main" } }, suspend: true },
      "the app is suspended",
    ],
  ])(
    "is cancelled after a change to %s, whether it is running or queued",
    async (_what, spec, message) => {
      bench.builder.script = { hangs: true };
      for (const name of ["one", "two"]) {
        const app = bench.apply(name);
        bench.service.ensure(app, await bench.waitUntilResolved(app));
      }
      await vi.waitFor(() => expect(bench.builder.runs).toHaveLength(1), WAIT_OPTIONS);
      for (const name of ["two", "one"]) bench.apply(name, spec);
      for (const id of [1, 2]) {
        await vi.waitFor(
          () => expect(bench.store.builds.get(id)).toMatchObject({ state: "cancelled", message }),
          WAIT_OPTIONS,
        );
      }
      expect(bench.builder.runs.map(({ ended }) => ended)).toEqual(["cancelled"]);
      bench.builder.script = {};
      expect(await bench.waitUntilBuilt(bench.apply("one"))).toEqual({ type: "succeeded", id: 3 });
    },
  );

  test("is cancelled when the deletion of the app begins", async () => {
    bench.builder.script = { hangs: true };
    const app = bench.apply("web");
    bench.service.ensure(app, await bench.waitUntilResolved(app));
    await vi.waitFor(() => expect(bench.builder.runs).toHaveLength(1), WAIT_OPTIONS);
    bench.store.delete("App", "web", { actor: { name: "test" }, manager: "api" });
    await vi.waitFor(
      () => expect(bench.store.builds.get(1)?.state).toBe("cancelled"),
      WAIT_OPTIONS,
    );
  });

  test("continues if the app is stopped, or deployed again from the same source", async () => {
    bench.builder.script = { hangs: true };
    const app = bench.apply("web");
    const source = await bench.waitUntilResolved(app);
    bench.service.ensure(app, source);
    await vi.waitFor(() => expect(bench.builder.runs).toHaveLength(1), WAIT_OPTIONS);
    bench.apply("web", { ...app.spec, running: false });
    const again = bench.apply("web", app.spec, {
      [DEPLOYED_AT_ANNOTATION]: "2030-01-01T00:00:00Z",
    });
    expect(bench.service.ensure(again, await bench.waitUntilResolved(again))).toMatchObject({
      id: 1,
    });
    expect(bench.store.builds.get(1)?.state).toBe("running");
  });
});
