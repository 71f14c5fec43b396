import { beforeEach, describe, expect, test } from "vitest";
import { World } from "../../../support/world.ts";

const source = "org/chat";
const signal = new AbortController().signal;

let world: World;
beforeEach(() => {
  world = new World();
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

describe("an App that says models", () => {
  test("waits until they answer, says what for, and is told where they are", async () => {
    world.apply("web", spec);
    await world.clock.until(
      () => readyOf("web")?.reason === "ModelNotFound",
      10_000,
      "it says that the model is not there",
    );
    expect(world.containersOf("web")).toEqual([]);

    world.applyModel("chat", { source });
    await world.clock.until(
      () => /^waits for model "chat": .*\d+ %/.test(readyOf("web")?.message ?? ""),
      60_000,
      "it says how far the download is",
    );
    await world.modelPhase("chat", "ready");
    await world.clock.until(
      () => readyOf("web")?.message.includes("berth models start chat") ?? false,
      10_000,
      "it says that nobody has started the model",
    );
    expect(readyOf("web")?.reason).toBe("ModelNotReady");
    expect(world.app("web")?.status?.phase).toBe("pending");
    expect(world.containersOf("web")).toEqual([]);

    world.applyModel("chat", { source, running: true });
    // No look at everything comes in between: that the model answers wakes the App.
    await world.ready("web", 5_000);
    expect(world.containersOf("web")[0]?.spec).toMatchObject({
      env: [
        "OPENAI_BASE_URL=http://models.berth.internal:7777/v1",
        "OPENAI_API_KEY=berth",
        "OPENAI_MODEL=chat",
        "BERTH_MODELS=chat",
      ],
      hostAliases: ["models.berth.internal"],
    });
  });

  test("goes on when a model leaves, and waits with its next version", async () => {
    world.applyModel("chat", { source, running: true });
    world.apply("web", spec);
    await world.ready("web");
    const [before] = world.containersOf("web");
    world.applyModel("chat", { source, running: false });
    await world.modelPhase("chat", "ready");
    await world.clock.advance(120_000);
    expect(world.containersOf("web")).toEqual([before]);
    expect(before?.state).toBe("running");
    expect(world.isReady("web")).toBe(true);

    world.apply("web", { ...spec, image: "web:2" });
    await world.clock.until(
      () => readyOf("web")?.reason === "ModelNotReady",
      10_000,
      "the next version waits",
    );
    expect(world.containersOf("web").map(({ state }) => state)).toEqual(["running"]);
    world.applyModel("chat", { source, running: true });
    await world.ready("web");
    expect(world.containersOf("web").map((container) => container.spec.image)).toEqual(["web:2"]);
  });

  test("is planned as held up, with what it waits for", async () => {
    const plan = await world.controllers.planApp("web", spec, signal);
    expect(plan.blockedBy).toContain('wants model "chat", which is not there');
    world.applyModel("chat", { source, running: true });
    await world.modelPhase("chat", "downloading");
    const later = await world.controllers.planApp("web", spec, signal);
    expect(later.blockedBy).toMatch(/^waits for model "chat": /);
    await world.modelPhase("chat", "running");
    const free = await world.controllers.planApp("web", spec, signal);
    expect(free.blockedBy).toBeNull();
    expect(free.operations.map(({ operation }) => operation)).toContain("createContainer");
  });
});
