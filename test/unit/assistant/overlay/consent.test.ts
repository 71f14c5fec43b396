import { describe, expect, test } from "vitest";
import { AssistantError } from "../../../../src/assistant/assistant-error.ts";
import {
  confirmationSpec,
  createCaller,
  createOverlayHarness,
  defaultCaller,
  getRefusal,
  type OverlayHarness,
  oneCallPassOutcome,
  REMOTE_MODEL,
  sandboxedCaller,
  searchHit,
  streamForever,
  textEvent,
} from "../../../support/overlay-harness.ts";
import { accepted, says } from "../../../support/scripted-service.ts";

describe("consent", () => {
  test("is asked for before anything leaves, holds for one turn, and is in the ledger before it is used", async () => {
    const world = createOverlayHarness();
    world.hits = async () => [searchHit()];
    const id = await world.ask({ modelHint: REMOTE_MODEL, myStuff: true });
    expect(world.eventSequence(id)).toBe("started needed(consent)");
    expect(world.meta(id)?.route).toBe("remote");
    expect(world.spec(id)).toEqual({
      v: 1,
      kind: "consent",
      question: 1,
      provider: "cloud",
      address: "https://cloud.example",
      model: "gpt:large",
      scopes: ["prompt", "files"],
      sources: world.meta(id)?.sources,
      calls: [],
      prompt: "When was the boiler serviced?",
      caller: { app: null, verified: false },
      expires_at: "2030-01-01T00:05:00.000Z",
    });
    expect(world.inference.requests).toEqual([]);
    let written: number | undefined;
    world.inference.script = (request) => {
      written = world.ledger.entries.length;
      return says(request, ["yes"]);
    };
    world.overlay.respond(id, true, createCaller(":1.8"));
    await world.settle();
    expect(world.eventSequence(id)).toBe("started needed(consent) yes completed/ok");
    expect(written).toBe(1);
    expect(world.ledger.entries[0]).toMatchObject({
      name: "remote.consent",
      fields: {
        scopes: ["prompt", "files"],
        once: true,
        query: id,
        provider: "cloud",
        address: "https://cloud.example",
        model: "gpt:large",
      },
    });
    expect(world.inference.requests[0]).toMatchObject({
      model: REMOTE_MODEL,
      egress: { classes: ["prompt", "files"], allowedOnce: ["prompt", "files"] },
    });
    expect(world.eventSequence(await world.ask({ modelHint: REMOTE_MODEL }))).toBe(
      "started needed(consent)",
    );
  });

  test("that was given for good is not asked for", async () => {
    const world = createOverlayHarness();
    world.consent.set("prompt", true);
    const id = await world.ask({ modelHint: REMOTE_MODEL });
    expect(world.finished(id)?.status).toBe("completed");
    world.hits = async () => [
      searchHit({ provenance: "calendar:work" }),
      searchHit({ provenance: "odd" }),
    ];
    const more = await world.ask({ modelHint: REMOTE_MODEL, myStuff: true });
    expect(world.spec(more)).toMatchObject({ scopes: ["calendar", "files"] });
  });

  test("is asked for before tools are called, and once more for what they brought in", async () => {
    const world = createOverlayHarness();
    world.pass = async () => oneCallPassOutcome;
    const id = await world.ask({ modelHint: REMOTE_MODEL, lane: "agent" });
    expect(world.passTurns).toEqual([]);
    expect(world.spec(id)).toMatchObject({ scopes: ["prompt"] });
    world.overlay.respond(id, true, defaultCaller);
    await world.settle();
    expect(world.passTurns).toHaveLength(1);
    expect(world.spec(id)).toMatchObject({ scopes: ["files"] });
    expect(world.inference.requests).toEqual([]);
    world.overlay.respond(id, true, defaultCaller);
    await world.settle();
    expect(world.inference.requests[0]?.egress).toEqual({
      classes: ["prompt", "files"],
      allowedOnce: ["prompt", "files"],
    });
    expect(world.finished(id)).toMatchObject({
      status: "completed",
      calls: oneCallPassOutcome.calls,
    });
  });

  test.each([
    [
      "a no",
      "declined",
      async (world: OverlayHarness) => world.overlay.respond(1, false, defaultCaller),
    ],
    ["Cancel", "declined", async (world: OverlayHarness) => world.overlay.cancel(1, defaultCaller)],
    [
      "no answer in 300 s",
      "expired",
      async (world: OverlayHarness) => world.clock.advance(300_000),
    ],
  ])("%s: nothing leaves", async (_, code, deny) => {
    const world = createOverlayHarness();
    const id = await world.ask({ modelHint: REMOTE_MODEL });
    await world.clock.advance(299_000);
    expect(world.eventSequence(id)).toBe("started needed(consent)");
    await deny(world);
    await world.settle();
    expect(world.eventSequence(id)).toBe(`started needed(consent) denied/${code}`);
    expect(world.inference.requests).toEqual([]);
    expect(world.ledger.entries).toEqual([]);
    expect(getRefusal(() => world.overlay.respond(id, true, defaultCaller))).toMatch(
      /^invalid_request/,
    );
  });

  test("that cannot be written down is none", async () => {
    const world = createOverlayHarness();
    const id = await world.ask({ modelHint: REMOTE_MODEL });
    world.ledger.mode = "down";
    world.overlay.respond(id, true, defaultCaller);
    await world.settle();
    expect(world.eventSequence(id)).toBe("started needed(consent) failed/ledger_unavailable");
    expect(world.inference.requests).toEqual([]);
  });

  test("taken back while the answer streams fails the query", async () => {
    const world = createOverlayHarness();
    world.consent.set("prompt", true);
    world.inference.script = function* () {
      yield accepted;
      yield textEvent("so");
      world.consent.set("prompt", false);
      throw new AssistantError("consent_required", "taken back");
    };
    const id = await world.ask({ modelHint: REMOTE_MODEL });
    expect(world.eventSequence(id)).toBe("started so failed/consent_required");
  });

  test("is asked for where a local model failed and a remote one stands behind it, once", async () => {
    const world = createOverlayHarness();
    world.aliases.set("best", ["tiny", REMOTE_MODEL, "remote:other:gpt"]);
    world.inference.script = (request) => {
      const { model, egress } = request;
      if (model === "best" || egress?.allowedOnce.length === 0)
        throw new AssistantError("consent_required", "not allowed");
      return says(request, ["far"]);
    };
    const id = await world.ask({ modelHint: "best" });
    expect(world.meta(id)?.route).toBe("local");
    expect(world.eventSequence(id)).toBe("started needed(consent)");
    world.overlay.respond(id, true, defaultCaller);
    await world.settle();
    expect(world.eventSequence(id)).toBe("started needed(consent) far completed/ok");
    // What was allowed was allowed for this provider, and no other one is tried.
    expect(world.inference.requests.at(-1)?.model).toBe(REMOTE_MODEL);
    world.inference.script = () => {
      throw new AssistantError("consent_required", "not allowed");
    };
    const never = await world.ask({ modelHint: "best" });
    world.overlay.respond(never, true, defaultCaller);
    await world.settle();
    expect(world.eventSequence(never)).toBe("started needed(consent) failed/consent_required");
  });

  test("is not asked for a provider that is not there", async () => {
    const world = createOverlayHarness();
    const id = await world.ask({ modelHint: "remote:nobody:gpt", myStuff: true });
    expect(world.eventSequence(id)).toBe("failed/model_not_found");
    expect(world.searches).toEqual([]);
  });

  test("is not an app's in a sandbox to give", async () => {
    const world = createOverlayHarness();
    const id = await world.ask({ modelHint: REMOTE_MODEL }, sandboxedCaller);
    for (const isApproved of [true, false])
      expect(getRefusal(() => world.overlay.respond(id, isApproved, sandboxedCaller))).toMatch(
        /^forbidden/,
      );
    expect(world.eventSequence(id)).toBe("started needed(consent)");
  });

  test("is answered once: the first answer counts", async () => {
    const world = createOverlayHarness();
    const id = await world.ask({ modelHint: REMOTE_MODEL });
    world.overlay.respond(id, false, defaultCaller);
    expect(getRefusal(() => world.overlay.respond(id, true, defaultCaller))).toMatch(
      /^invalid_request/,
    );
    await world.settle();
    expect(world.finished(id)?.status).toBe("denied");
    expect(getRefusal(() => world.overlay.respond(99, true, defaultCaller))).toMatch(/^not_found/);
    world.inference.script = streamForever;
    const running = await world.ask();
    expect(getRefusal(() => world.overlay.respond(running, true, defaultCaller))).toMatch(
      /^invalid_request/,
    );
  });
});

describe("a tool call that a person has to confirm", () => {
  test("is shown as Agent1 has it, and confirmed by whoever said yes", async () => {
    const world = createOverlayHarness();
    const by: string[] = [];
    world.pass = async ({ ask }, signal) => {
      by.push((await ask(confirmationSpec(), signal)).connection);
      return oneCallPassOutcome;
    };
    const id = await world.ask({ lane: "agent" });
    expect(world.spec(id)).toEqual({ ...confirmationSpec(), kind: "call", question: 1 });
    world.overlay.respond(id, true, createCaller(":1.8"));
    await world.settle();
    expect(by).toEqual([":1.8"]);
    expect(world.finished(id)?.status).toBe("completed");
  });

  test("that was decided elsewhere needs no answer any more, and the turn goes on", async () => {
    const world = createOverlayHarness();
    const decided = new AbortController();
    world.pass = async ({ ask }) => {
      await ask(confirmationSpec(), decided.signal).catch(() => {});
      return oneCallPassOutcome;
    };
    const id = await world.ask({ lane: "agent" });
    decided.abort(new Error("confirmed elsewhere"));
    await world.settle();
    expect(world.finished(id)?.status).toBe("completed");
    expect(world.clock.pending).toBe(0);
  });

  test("is declined by Cancel", async () => {
    const world = createOverlayHarness();
    world.pass = async ({ ask }, signal) => {
      await ask(confirmationSpec(), signal);
      return oneCallPassOutcome;
    };
    const id = await world.ask({ lane: "agent" });
    world.overlay.cancel(id, defaultCaller);
    await world.settle();
    expect(world.eventSequence(id)).toBe("started needed(call) denied/declined");
  });
});
