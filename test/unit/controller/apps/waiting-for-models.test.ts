import { beforeEach, describe, expect, test } from "vitest";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";

const source = "org/chat";
const signal = new AbortController().signal;

let world: ControlPlaneHarness;
beforeEach(() => {
  world = new ControlPlaneHarness();
  world.models.repositories.set(source, {
    commit: "c1".repeat(20),
    bytes: 1_000,
    memoryBytes: 400,
  });
  world.boot();
  return () => world[Symbol.asyncDispose]();
});

const spec = { image: "web:1", models: ["chat"] };
const readyOf = (app: string) => world.condition(app, "Ready");

describe("an App with models", () => {
  test("waits until they answer, reports them, and gets their URL", async () => {
    world.apply("web", spec);
    await world.clock.until(
      () => readyOf("web")?.reason === "ModelNotFound",
      10_000,
      "it says that the model is not there",
    );
    expect(world.listContainers("web")).toEqual([]);

    world.applyModel("chat", { source });
    await world.clock.until(
      () => /^waits for model "chat": .*\d+ %/.test(readyOf("web")?.message ?? ""),
      60_000,
      "it says how far the download is",
    );
    await world.waitForModelPhase("chat", "ready");
    await world.clock.until(
      () => readyOf("web")?.message.includes("berth models start chat") ?? false,
      10_000,
      "it says that nobody has started the model",
    );
    expect(readyOf("web")?.reason).toBe("ModelNotReady");
    expect(world.app("web")?.status?.phase).toBe("pending");
    expect(world.listContainers("web")).toEqual([]);

    world.applyModel("chat", { source, running: true });
    // No resync comes in between: the model that begins to answer queues the App.
    await world.waitUntilReady("web", 5_000);
    expect(world.listContainers("web")[0]?.spec).toMatchObject({
      env: [
        "OPENAI_BASE_URL=http://models.berth.internal:7777/v1",
        "OPENAI_API_KEY=berth",
        "OPENAI_MODEL=chat",
        "BERTH_MODELS=chat",
      ],
      hostAliases: ["models.berth.internal"],
    });
  });

  test("keeps running when a model is stopped, and waits with its next version", async () => {
    world.applyModel("chat", { source, running: true });
    world.apply("web", spec);
    await world.waitUntilReady("web");
    const [before] = world.listContainers("web");
    world.applyModel("chat", { source, running: false });
    await world.waitForModelPhase("chat", "ready");
    await world.clock.advance(120_000);
    expect(world.listContainers("web")).toEqual([before]);
    expect(before?.state).toBe("running");
    expect(world.isReady("web")).toBe(true);

    world.apply("web", { ...spec, image: "web:2" });
    await world.clock.until(
      () => readyOf("web")?.reason === "ModelNotReady",
      10_000,
      "the next version waits",
    );
    expect(world.listContainers("web").map(({ state }) => state)).toEqual(["running"]);
    world.applyModel("chat", { source, running: true });
    await world.waitUntilReady("web");
    expect(world.listContainers("web").map((container) => container.spec.image)).toEqual(["web:2"]);
  });

  test("has a plan that is blocked, with the reason", async () => {
    const plan = await world.controlPlane.planApp("web", spec, signal);
    expect(plan.blockedBy).toContain('wants model "chat", which does not exist');
    world.applyModel("chat", { source, running: true });
    await world.waitForModelPhase("chat", "downloading");
    const later = await world.controlPlane.planApp("web", spec, signal);
    expect(later.blockedBy).toMatch(/^waits for model "chat": /);
    await world.waitForModelPhase("chat", "running");
    const free = await world.controlPlane.planApp("web", spec, signal);
    expect(free.blockedBy).toBeNull();
    expect(free.operations.map(({ operation }) => operation)).toContain("createContainer");
  });
});
