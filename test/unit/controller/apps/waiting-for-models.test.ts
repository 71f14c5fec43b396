import { beforeEach, describe, expect, test } from "vitest";
import { ControlPlaneHarness } from "../../../support/control-plane-harness.ts";

const source = "org/chat";
const signal = new AbortController().signal;

let harness: ControlPlaneHarness;
beforeEach(() => {
  harness = new ControlPlaneHarness();
  harness.models.repositories.set(source, {
    commit: "c1".repeat(20),
    bytes: 1_000,
    memoryBytes: 400,
  });
  harness.boot();
  return () => harness[Symbol.asyncDispose]();
});

const spec = { image: "web:1", models: ["chat"] };
const readyOf = (app: string) => harness.condition(app, "Ready");

describe("an App with models", () => {
  test("waits until the models answer, reports them in its status, and gets their URL", async () => {
    harness.apply("web", spec);
    await harness.clock.until(
      () => readyOf("web")?.reason === "ModelNotFound",
      10_000,
      "it says that the model is not there",
    );
    expect(harness.listContainers("web")).toEqual([]);

    harness.applyModel("chat", { source });
    await harness.clock.until(
      () => /^waits for model "chat": .*\d+ %/.test(readyOf("web")?.message ?? ""),
      60_000,
      "it says how far the download is",
    );
    await harness.waitForModelPhase("chat", "ready");
    await harness.clock.until(
      () => readyOf("web")?.message.includes("berth models start chat") ?? false,
      10_000,
      "it says that nobody has started the model",
    );
    expect(readyOf("web")?.reason).toBe("ModelNotReady");
    expect(harness.app("web")?.status?.phase).toBe("pending");
    expect(harness.listContainers("web")).toEqual([]);

    harness.applyModel("chat", { source, running: true });
    // No resync happens within these 5 s, so the change of the Model to Ready must have queued the App.
    await harness.waitUntilReady("web", 5_000);
    expect(harness.listContainers("web")[0]?.spec).toMatchObject({
      env: [
        "OPENAI_BASE_URL=http://models.berth.internal:7777/v1",
        "OPENAI_API_KEY=berth",
        "OPENAI_MODEL=chat",
        "BERTH_MODELS=chat",
      ],
      hostAliases: ["models.berth.internal"],
    });
  });

  test("keeps running when a model is stopped, but its next version waits for the model", async () => {
    harness.applyModel("chat", { source, running: true });
    harness.apply("web", spec);
    await harness.waitUntilReady("web");
    const [before] = harness.listContainers("web");
    harness.applyModel("chat", { source, running: false });
    await harness.waitForModelPhase("chat", "ready");
    await harness.clock.advance(120_000);
    expect(harness.listContainers("web")).toEqual([before]);
    expect(before?.state).toBe("running");
    expect(harness.isReady("web")).toBe(true);

    harness.apply("web", { ...spec, image: "web:2" });
    await harness.clock.until(
      () => readyOf("web")?.reason === "ModelNotReady",
      10_000,
      "the next version waits",
    );
    expect(harness.listContainers("web").map(({ state }) => state)).toEqual(["running"]);
    harness.applyModel("chat", { source, running: true });
    await harness.waitUntilReady("web");
    expect(harness.listContainers("web").map((container) => container.spec.image)).toEqual([
      "web:2",
    ]);
  });

  test("has a blocked plan, which states the reason", async () => {
    const plan = await harness.controlPlane.planApp("web", spec, signal);
    expect(plan.blockedBy).toContain('needs model "chat", which does not exist');
    harness.applyModel("chat", { source, running: true });
    await harness.waitForModelPhase("chat", "downloading");
    const later = await harness.controlPlane.planApp("web", spec, signal);
    expect(later.blockedBy).toMatch(/^waits for model "chat": /);
    await harness.waitForModelPhase("chat", "running");
    const free = await harness.controlPlane.planApp("web", spec, signal);
    expect(free.blockedBy).toBeNull();
    expect(free.operations.map(({ operation }) => operation)).toContain("createContainer");
  });
});
