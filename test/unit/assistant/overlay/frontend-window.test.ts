import { describe, expect, test } from "vitest";
import { AssistantError } from "../../../../src/assistant/assistant-error.ts";
import {
  createOverlayHarness,
  defaultCaller,
  REMOTE_MODEL,
} from "../../../support/overlay-harness.ts";
import { Gate } from "../../../support/scripted-service.ts";

describe("the frontend's window", () => {
  test("is shown if the user must answer and cannot see it, and is hidden when no question is open", async () => {
    const harness = createOverlayHarness();
    harness.ui.owner = ":1.30";
    const first = await harness.ask({ modelHint: REMOTE_MODEL });
    const second = await harness.ask({ modelHint: REMOTE_MODEL });
    expect(harness.ui.calls).toEqual([`summon "" ${first}`]);
    expect(harness.eventsOfQuery(second).map(({ kind, to }) => `${kind} ${to}`)).toEqual([
      "started :1.7",
      "needed :1.7",
      "needed :1.30",
    ]);
    harness.overlay.respond(first, true, defaultCaller);
    await harness.settle();
    expect(harness.ui.calls).toHaveLength(1);
    harness.overlay.cancel(second, defaultCaller);
    await harness.settle();
    expect(harness.ui.calls).toEqual([`summon "" ${first}`, "hide"]);
  });

  test("stays visible if it was visible before, or if the user has summoned it in the meantime", async () => {
    const harness = createOverlayHarness();
    Object.assign(harness.ui, { owner: ":1.30", visible: true });
    const first = await harness.ask({ modelHint: REMOTE_MODEL });
    harness.overlay.respond(first, false, defaultCaller);
    await harness.settle();
    expect(harness.ui.calls).toEqual([]);
    harness.ui.visible = false;
    const second = await harness.ask({ modelHint: REMOTE_MODEL });
    await harness.overlay.summon("more");
    harness.overlay.respond(second, false, defaultCaller);
    await harness.settle();
    expect(harness.ui.calls).toEqual([`summon "" ${second}`, 'summon "more"']);
  });

  test("is not hidden if another frontend has replaced the frontend that was summoned", async () => {
    const harness = createOverlayHarness();
    harness.ui.owner = ":1.30";
    const id = await harness.ask({ modelHint: REMOTE_MODEL });
    Object.assign(harness.ui, { owner: ":1.31" });
    harness.overlay.respond(id, false, defaultCaller);
    await harness.settle();
    expect(harness.ui.calls).toEqual([`summon "" ${id}`]);
  });

  test("does not get a question that was closed while the frontend was being found", async () => {
    const harness = createOverlayHarness();
    const gate = new Gate();
    harness.ui.owner = ":1.30";
    harness.ui.connection = async () => {
      await gate.opened;
      return ":1.30";
    };
    const id = await harness.ask({ modelHint: REMOTE_MODEL });
    harness.overlay.handleDisconnect(defaultCaller.connection);
    await harness.settle();
    gate.open();
    await harness.settle();
    expect(harness.eventsOfQuery(id).map(({ kind, to }) => `${kind} ${to}`)).toEqual([
      "started :1.7",
      "needed :1.7",
      "finished :1.7",
    ]);
    expect(harness.ui.calls).toEqual([]);
  });

  test("does not stop a query if it cannot be shown, or if the frontend itself sent the query", async () => {
    const harness = createOverlayHarness();
    harness.ui.owner = defaultCaller.connection;
    const own = await harness.ask({ modelHint: REMOTE_MODEL });
    expect(harness.eventSequence(own)).toBe("started needed(consent)");
    harness.ui.failure = new AssistantError("timeout", "no answer");
    const id = await harness.ask({ modelHint: REMOTE_MODEL });
    harness.overlay.respond(id, true, defaultCaller);
    await harness.settle();
    expect(harness.finished(id)?.status).toBe("completed");
    await expect(harness.overlay.summon("x")).rejects.toThrow("no answer");
    harness.ui.owner = undefined;
    await expect(harness.overlay.hide()).rejects.toMatchObject({ code: "not_found" });
  });
});
