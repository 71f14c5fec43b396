import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import * as labels from "../../src/controller/labels.ts";
import type { AppSpec } from "../../src/resources/app-spec.ts";
import { STACK_LABEL } from "../../src/resources/stack.ts";
import { ControlPlaneHarness } from "../support/control-plane-harness.ts";
import type { FakeCall, FakeFaults } from "../support/fake-runtime.ts";
import { sampleOf } from "../support/sampling.ts";
import { applyResource } from "../support/test-store.ts";

/**
 * Berth is killed before and after engine calls of a scenario: create, scale, replace, stop, start, revert, delete.
 * After any call, the next start reaches the same final state. A run tests a sample of the calls; with BERTH_KILLS=all
 * it tests every one.
 */

const images = {
  "web:1": {},
  "web:2": {},
  "once:1": { exits: { afterMs: 2_000, code: 0 } },
  "web:3": {},
  "bad:1": { exits: { afterMs: 100, code: 1 } },
  "shut:1": { readyAfterMs: 1_000, exits: { afterMs: 100, code: 1 } },
  "brief:1": { exits: { afterMs: 2_000, code: 1 } },
};
const web: AppSpec = {
  image: "web:1",
  port: 80,
  replicas: 2,
  volumes: [{ name: "data", path: "/data" }],
};

interface Scenario {
  readonly name: string;
  readonly ingress?: true;
  /**
   * The image of a version that gets the requests and exits later. Berth keeps the previous version until it has
   * observed the new one for long enough.
   */
  readonly dies?: string;
  readonly initialSpec?: AppSpec;
  /** Apps of the stack `blog` that are Ready before the scenario begins. */
  readonly initialStack?: Readonly<Record<string, AppSpec>>;
  readonly act: (harness: ControlPlaneHarness) => void;
  readonly isDone: (harness: ControlPlaneHarness) => boolean;
}

const running = (harness: ControlPlaneHarness) =>
  harness.listContainers("web").filter((container) => container.state === "running");
const serves = (harness: ControlPlaneHarness, image: string, replicas: number) =>
  running(harness).length === replicas &&
  harness.listContainers("web").length === replicas &&
  running(harness).every((container) => container.spec.image === image);

function applyInStack(harness: ControlPlaneHarness, name: string, spec: AppSpec): void {
  applyResource(harness.store, "App", name, spec, { labels: { [STACK_LABEL]: "blog" } });
}

const sharing: AppSpec = {
  image: "web:1",
  volumes: [{ name: "media", path: "/media", shared: true }],
  folders: [
    { name: "config", path: "/config", shared: true },
    { name: "own", path: "/own" },
  ],
};

/** Returns the content of each file of the App on the disk. */
function readFiles({ dataDir }: ControlPlaneHarness): readonly string[] {
  const folder = join(dataDir, "files", "web");
  return readdirSync(folder).map((name) => readFileSync(join(folder, name), "utf8"));
}

const scenarios: readonly Scenario[] = [
  {
    name: "create",
    act: (harness) => harness.apply("web", web),
    isDone: (harness) => harness.isReady("web") && serves(harness, "web:1", 2),
  },
  {
    name: "replace",
    initialSpec: web,
    act: (harness) => harness.apply("web", { ...web, image: "web:2" }),
    isDone: (harness) => harness.isReady("web") && serves(harness, "web:2", 2),
  },
  {
    name: "run a one-shot",
    act: (harness) => {
      harness.apply("job", { image: "once:1", oneShot: true });
      harness.apply("web", { ...web, dependsOn: ["job"] });
    },
    isDone: (harness) =>
      harness.app("job")?.status?.phase === "completed" &&
      harness.isReady("web") &&
      serves(harness, "web:1", 2),
  },
  {
    name: "replace a file",
    initialSpec: { ...web, files: [{ path: "/etc/web.conf", content: "one" }] },
    act: (harness) =>
      harness.apply("web", { ...web, files: [{ path: "/etc/web.conf", content: "two" }] }),
    isDone: (harness) =>
      harness.isReady("web") && serves(harness, "web:1", 2) && readFiles(harness).join() === "two",
  },
  {
    name: "scale down",
    initialSpec: web,
    act: (harness) => harness.apply("web", { ...web, replicas: 1 }),
    isDone: (harness) => harness.isReady("web") && serves(harness, "web:1", 1),
  },
  {
    name: "stop",
    initialSpec: web,
    act: (harness) => harness.apply("web", { ...web, running: false }),
    isDone: (harness) =>
      harness.app("web")?.status?.phase === "stopped" && running(harness).length === 0,
  },
  {
    name: "bring up a bad version and revert it",
    initialSpec: web,
    act: (harness) => harness.apply("web", { ...web, image: "bad:1" }),
    isDone: (harness) =>
      harness.condition("web", "Ready")?.reason === "Reverted" && serves(harness, "web:1", 2),
  },
  {
    name: "share data in a stack",
    act: (harness) => {
      applyInStack(harness, "blog-web", sharing);
      applyInStack(harness, "blog-worker", sharing);
    },
    isDone: (harness) =>
      harness.isReady("blog-web") &&
      harness.isReady("blog-worker") &&
      [...harness.engine.volumes.keys()].join() === "berth--0123abcd-blog_media" &&
      readdirSync(join(harness.dataDir, "folders/stacks/blog")).join() === "config",
  },
  {
    name: "delete a stack with its shared data",
    initialStack: { "blog-web": sharing, "blog-worker": sharing },
    act: (harness) => {
      for (const name of ["blog-web", "blog-worker"])
        harness.store.delete("App", name, {
          actor: { name: "test" },
          manager: "api",
          deleteVolumes: true,
        });
    },
    isDone: (harness) =>
      harness.store.list("App").length === 0 &&
      harness.engine.volumes.size === 0 &&
      readdirSync(join(harness.dataDir, "folders/stacks")).length === 0 &&
      readdirSync(join(harness.dataDir, "folders/apps")).length === 0,
  },
  {
    name: "delete with volumes",
    initialSpec: web,
    act: (harness) =>
      void harness.store.delete("App", "web", {
        actor: { name: "test" },
        manager: "api",
        deleteVolumes: true,
      }),
    isDone: (harness) =>
      !harness.app("web") &&
      harness.engine.containers().length === 0 &&
      harness.engine.volumes.size === 0,
  },
];

const rolling: AppSpec = { image: "web:1", port: 80, replicas: 2 };
const isServed = (harness: ControlPlaneHarness, image: string) =>
  harness.listServedImages("web").length === 2 &&
  harness.listServedImages("web").every((served) => served === image);

/** Scenarios with an ingress: requests must always reach a version that answers. */
const rolloutScenarios: readonly Scenario[] = [
  {
    name: "roll out",
    ingress: true,
    initialSpec: rolling,
    act: (harness) => harness.apply("web", { ...rolling, image: "web:2" }),
    isDone: (harness) =>
      harness.isReady("web") && serves(harness, "web:2", 2) && isServed(harness, "web:2"),
  },
  {
    name: "roll out a bad version",
    ingress: true,
    initialSpec: rolling,
    act: (harness) => harness.apply("web", { ...rolling, image: "shut:1" }),
    isDone: (harness) =>
      harness.condition("web", "Ready")?.reason === "Reverted" &&
      serves(harness, "web:1", 2) &&
      isServed(harness, "web:1"),
  },
  {
    name: "roll out a version that dies after the switch",
    ingress: true,
    dies: "brief:1",
    initialSpec: rolling,
    act: (harness) => harness.apply("web", { ...rolling, image: "brief:1" }),
    isDone: (harness) =>
      harness.condition("web", "Ready")?.reason === "Reverted" &&
      serves(harness, "web:1", 2) &&
      isServed(harness, "web:1"),
  },
  {
    name: "overtake a rollout",
    ingress: true,
    initialSpec: rolling,
    act: (harness) => {
      harness.apply("web", { ...rolling, image: "web:2" });
      // If a kill within 50 ms prevents the second change, the spec keeps the image web:2. So `isDone` expects the
      // image that the spec has.
      harness.clock.setTimer(50, () => {
        if (!harness.isDead) harness.apply("web", { ...rolling, image: "web:3" });
      });
    },
    isDone: (harness) => {
      const image = harness.app("web")?.spec.image ?? "";
      return harness.isReady("web") && serves(harness, image, 2) && isServed(harness, image);
    },
  },
];

/**
 * Runs the scenario, and kills Berth at engine call `point`. Returns the number of calls if the scenario makes fewer.
 */
async function runScenario(
  story: Scenario,
  point: number,
  when: "before" | "after",
): Promise<number | undefined> {
  await using harness = new ControlPlaneHarness({
    images,
    ingress: story.ingress ? "fake" : "off",
  });
  let armed = false;
  let calls = 0;
  let killed = false;
  /**
   * The order in which the calls began: the position of each call, by the call's number. Changes of the route table
   * have negative numbers.
   */
  const order = new Map<number, number>();
  const hook = (moment: "before" | "after", call: Pick<FakeCall, "number">) => {
    if (!armed) return;
    if (moment === "before") {
      calls += 1;
      order.set(call.number, calls);
    }
    if (moment !== when || order.get(call.number) !== point) return;
    armed = false;
    killed = true;
    harness.die();
    throw new Error("killed");
  };
  const faults: FakeFaults = {
    beforeCall: (call) => hook("before", call),
    afterCall: (call) => {
      if (call.name === "startContainer" && !story.ingress) {
        const versions = new Set(
          running(harness).map((container) => container.labels[labels.SPEC_HASH]),
        );
        expect(versions.size).toBeLessThan(2);
      }
      hook("after", call);
    },
  };
  if (harness.routes) {
    // Changes of the route table are counted together with engine calls, so that Berth is also killed at each change.
    const hookRoute = (moment: "before" | "after", number: number) =>
      hook(moment, { number: -number });
    harness.routes.faults = {
      before: ({ number }) => hookRoute("before", number),
      after: ({ number }) => hookRoute("after", number),
    };
  }
  harness.boot(faults);
  if (story.initialSpec) {
    harness.apply("web", story.initialSpec);
    await harness.waitUntilReady("web");
    await harness.clock.advance(15_000);
  }
  for (const [name, spec] of Object.entries(story.initialStack ?? {}))
    applyInStack(harness, name, spec);
  for (const name of Object.keys(story.initialStack ?? {})) await harness.waitUntilReady(name);
  armed = true;
  story.act(harness);
  const stop = watchTraffic(harness, story);
  await harness.clock.until(
    () => killed || story.isDone(harness),
    600_000,
    `${story.name}, killed ${when} call ${point}`,
  );
  if (!killed) {
    expect(stop()).toEqual([]);
    return calls;
  }
  await harness.kill();
  await harness.clock.advance(1_000);
  harness.boot({});
  await harness.clock.until(
    () => story.isDone(harness),
    900_000,
    `${story.name} after a kill ${when} call ${point}`,
  );
  expect(stop()).toEqual([]);
  return undefined;
}

/**
 * Checks every 10 ms that a version of the app answers. If the scenario's new version dies, checks instead that both
 * containers of the previous version run. The returned function stops the checks, and returns the violations.
 */
function watchTraffic(harness: ControlPlaneHarness, story: Scenario): () => string[] {
  const wrong = new Set<string>();
  let isOver = false;
  const look = () => {
    if (isOver || !story.ingress) return;
    const served = harness.listServedImages("web");
    if (story.dies === undefined) {
      if (served.length === 0) wrong.add("nobody answers");
      for (const image of served) if (!image.startsWith("web:")) wrong.add(image);
    } else if (running(harness).filter(({ spec }) => spec.image === "web:1").length !== 2)
      wrong.add("the previous version is not kept");
    harness.clock.setTimer(10, look);
  };
  look();
  return () => {
    isOver = true;
    return [...wrong];
  };
}

describe.each(["before", "after"] as const)(
  "a kill %s an engine call leads to the same final state",
  (when) => {
    test.each([...scenarios, ...rolloutScenarios])("in the scenario: $name", async (story) => {
      const calls = (await runScenario(story, Number.POSITIVE_INFINITY, when)) ?? 0;
      expect(calls).toBeGreaterThan(2);
      const points = Array.from({ length: calls }, (_, index) => index + 1);
      const name = `${story.name}: ${when}`;
      for (const point of sampleOf(name, points, 2))
        expect(await runScenario(story, point, when)).toBeUndefined();
    });
  },
);
