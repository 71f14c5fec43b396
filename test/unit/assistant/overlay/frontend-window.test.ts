import { describe, expect, test } from "vitest";
import { AssistantError } from "../../../../src/assistant/assistant-error.ts";
import {
  createOverlayHarness,
  defaultCaller,
  REMOTE_MODEL,
} from "../../../support/overlay-harness.ts";
import { Gate } from "../../../support/scripted-service.ts";

describe("the frontend's window", () => {
  test("comes up where a person is asked and cannot see it, and goes when nothing waits", async () => {
    const world = createOverlayHarness();
    world.ui.owner = ":1.30";
    const first = await world.ask({ modelHint: REMOTE_MODEL });
    const second = await world.ask({ modelHint: REMOTE_MODEL });
    expect(world.ui.calls).toEqual([`summon "" ${first}`]);
    expect(world.eventsOfQuery(second).map(({ kind, to }) => `${kind} ${to}`)).toEqual([
      "started :1.7",
      "needed :1.7",
      "needed :1.30",
    ]);
    world.overlay.respond(first, true, defaultCaller);
    await world.settle();
    expect(world.ui.calls).toHaveLength(1);
    world.overlay.cancel(second, defaultCaller);
    await world.settle();
    expect(world.ui.calls).toEqual([`summon "" ${first}`, "hide"]);
  });

  test("stays where it was there before, or somebody has summoned it since", async () => {
    const world = createOverlayHarness();
    Object.assign(world.ui, { owner: ":1.30", visible: true });
    const first = await world.ask({ modelHint: REMOTE_MODEL });
    world.overlay.respond(first, false, defaultCaller);
    await world.settle();
    expect(world.ui.calls).toEqual([]);
    world.ui.visible = false;
    const second = await world.ask({ modelHint: REMOTE_MODEL });
    await world.overlay.summon("more");
    world.overlay.respond(second, false, defaultCaller);
    await world.settle();
    expect(world.ui.calls).toEqual([`summon "" ${second}`, 'summon "more"']);
  });

  test("is not hidden where another frontend has come in the place of the one that was summoned", async () => {
    const world = createOverlayHarness();
    world.ui.owner = ":1.30";
    const id = await world.ask({ modelHint: REMOTE_MODEL });
    Object.assign(world.ui, { owner: ":1.31" });
    world.overlay.respond(id, false, defaultCaller);
    await world.settle();
    expect(world.ui.calls).toEqual([`summon "" ${id}`]);
  });

  test("that is found only when nothing is asked any more is asked nothing", async () => {
    const world = createOverlayHarness();
    const gate = new Gate();
    world.ui.owner = ":1.30";
    world.ui.connection = async () => {
      await gate.opened;
      return ":1.30";
    };
    const id = await world.ask({ modelHint: REMOTE_MODEL });
    world.overlay.handleDisconnect(defaultCaller.connection);
    await world.settle();
    gate.open();
    await world.settle();
    expect(world.eventsOfQuery(id).map(({ kind, to }) => `${kind} ${to}`)).toEqual([
      "started :1.7",
      "needed :1.7",
      "finished :1.7",
    ]);
    expect(world.ui.calls).toEqual([]);
  });

  test("that fails, or asks itself, costs nobody anything", async () => {
    const world = createOverlayHarness();
    world.ui.owner = defaultCaller.connection;
    const own = await world.ask({ modelHint: REMOTE_MODEL });
    expect(world.eventSequence(own)).toBe("started needed(consent)");
    world.ui.failure = new AssistantError("timeout", "no answer");
    const id = await world.ask({ modelHint: REMOTE_MODEL });
    world.overlay.respond(id, true, defaultCaller);
    await world.settle();
    expect(world.finished(id)?.status).toBe("completed");
    await expect(world.overlay.summon("x")).rejects.toThrow("no answer");
    world.ui.owner = undefined;
    await expect(world.overlay.hide()).rejects.toMatchObject({ code: "not_found" });
  });
});
