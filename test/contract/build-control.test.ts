import { vi } from "vitest";
import { BuildServiceHarness } from "../support/build-service-harness.ts";
import { FakeBuildControl } from "../support/fake-build-control.ts";
import { openTestStore } from "../support/test-store.ts";
import { WAIT_OPTIONS } from "../support/wait-limits.ts";
import { type BuildControlHarness, buildControlContract } from "./build-control-contract.ts";

const all = { checksFormat: true, findsFollowers: true };
buildControlContract("the build service", all, async (): Promise<BuildControlHarness> => {
  const harness = new BuildServiceHarness();
  const { store } = harness;
  const newest = () => store.builds.list({ limit: 1 })[0]?.id ?? 0;
  return {
    builds: harness.service,
    startEndlessBuild: async () => {
      harness.builder.script = { hangs: true };
      const app = harness.apply("endless");
      harness.service.ensure(app, await harness.waitUntilResolved(app));
      await vi.waitFor(async () => {
        if ((await harness.readLog(newest())).length === 0) throw new Error("the log is empty");
      }, WAIT_OPTIONS);
      return newest();
    },
    runBuild: async () => {
      harness.builder.script = { lines: ["done"] };
      await harness.waitUntilBuilt(harness.apply("finished"));
      return newest();
    },
    stateOf: (id) => store.builds.get(id)?.state,
    follow: (app, url, ref) => void harness.apply(app, { source: { git: { url, ref } } }),
    [Symbol.asyncDispose]: () => harness[Symbol.asyncDispose](),
  };
});

const none = { checksFormat: false, findsFollowers: false };
buildControlContract("fake", none, async (): Promise<BuildControlHarness> => {
  const opened = openTestStore();
  const { store } = opened;
  const builds = new FakeBuildControl(store);
  const start = () => {
    const { id } = store.builds.create({
      app: "web",
      generation: 1,
      source: "git",
      revision: "a".repeat(40),
      image: "berth/web:1",
    });
    builds.logs.set(id, ["one"]);
    store.builds.mark(id, "running");
    return id;
  };
  return {
    builds,
    startEndlessBuild: async () => start(),
    runBuild: async () => {
      const id = start();
      store.builds.mark(id, "succeeded");
      return id;
    },
    stateOf: (id) => store.builds.get(id)?.state,
    follow: () => {},
    [Symbol.asyncDispose]: () => opened[Symbol.asyncDispose](),
  };
});
