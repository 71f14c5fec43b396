import { describe, expect, test } from "vitest";
import { AssistantError } from "../../../../src/assistant/assistant-error.ts";
import { noToolAnswer } from "../../../support/agent-pass-harness.ts";
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

describe("the consent to send data to a provider", () => {
  test("is requested before data leaves the machine, is valid for one turn, and is in the ledger before it is used", async () => {
    const harness = createOverlayHarness();
    harness.hits = async () => [searchHit()];
    const id = await harness.ask({ modelHint: REMOTE_MODEL, myStuff: true });
    expect(harness.eventSequence(id)).toBe("started needed(consent)");
    expect(harness.meta(id)?.route).toBe("remote");
    expect(harness.spec(id)).toEqual({
      v: 1,
      kind: "consent",
      question: 1,
      provider: "cloud",
      address: "https://cloud.example",
      model: "gpt:large",
      scopes: ["prompt", "files"],
      sources: harness.meta(id)?.sources,
      calls: [],
      prompt: "When was the boiler serviced?",
      caller: { app: null, verified: false },
      expires_at: "2030-01-01T00:05:00.000Z",
    });
    expect(harness.inference.requests).toEqual([]);
    let written: number | undefined;
    harness.inference.script = (request) => {
      written = harness.ledger.entries.length;
      return says(request, ["yes"]);
    };
    harness.overlay.respond(id, true, createCaller(":1.8"));
    await harness.settle();
    expect(harness.eventSequence(id)).toBe("started needed(consent) yes completed/ok");
    expect(written).toBe(1);
    expect(harness.ledger.entries[0]).toMatchObject({
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
    expect(harness.inference.requests[0]).toMatchObject({
      model: REMOTE_MODEL,
      egress: { classes: ["prompt", "files"], allowedOnce: ["prompt", "files"] },
    });
    expect(harness.eventSequence(await harness.ask({ modelHint: REMOTE_MODEL }))).toBe(
      "started needed(consent)",
    );
  });

  test("is not requested if it was given permanently", async () => {
    const harness = createOverlayHarness();
    harness.consent.set("prompt", true);
    const id = await harness.ask({ modelHint: REMOTE_MODEL });
    expect(harness.finished(id)?.status).toBe("completed");
    harness.hits = async () => [
      searchHit({ provenance: "calendar:work" }),
      searchHit({ provenance: "odd" }),
    ];
    const more = await harness.ask({ modelHint: REMOTE_MODEL, myStuff: true });
    expect(harness.spec(more)).toMatchObject({ scopes: ["calendar", "files"] });
  });

  test("is requested before tools are called, and once more for their results", async () => {
    const harness = createOverlayHarness();
    harness.pass = async () => oneCallPassOutcome;
    const id = await harness.ask({ modelHint: REMOTE_MODEL, lane: "agent" });
    expect(harness.passTurns).toEqual([]);
    expect(harness.spec(id)).toMatchObject({ scopes: ["prompt"] });
    harness.overlay.respond(id, true, defaultCaller);
    await harness.settle();
    expect(harness.passTurns).toHaveLength(1);
    expect(harness.spec(id)).toMatchObject({ scopes: ["files"] });
    expect(harness.inference.requests).toEqual([]);
    harness.overlay.respond(id, true, defaultCaller);
    await harness.settle();
    expect(harness.inference.requests[0]?.egress).toEqual({
      classes: ["prompt", "files"],
      allowedOnce: ["prompt", "files"],
    });
    expect(harness.finished(id)).toMatchObject({
      status: "completed",
      calls: oneCallPassOutcome.calls,
    });
  });

  test.each([
    [
      "a no",
      "declined",
      async (harness: OverlayHarness) => harness.overlay.respond(1, false, defaultCaller),
    ],
    [
      "Cancel",
      "declined",
      async (harness: OverlayHarness) => harness.overlay.cancel(1, defaultCaller),
    ],
    [
      "no answer in 300 s",
      "expired",
      async (harness: OverlayHarness) => harness.clock.advance(300_000),
    ],
  ])("is missing after %s, and no data leaves the machine", async (_, code, deny) => {
    const harness = createOverlayHarness();
    const id = await harness.ask({ modelHint: REMOTE_MODEL });
    await harness.clock.advance(299_000);
    expect(harness.eventSequence(id)).toBe("started needed(consent)");
    await deny(harness);
    await harness.settle();
    expect(harness.eventSequence(id)).toBe(`started needed(consent) denied/${code}`);
    expect(harness.inference.requests).toEqual([]);
    expect(harness.ledger.entries).toEqual([]);
    expect(getRefusal(() => harness.overlay.respond(id, true, defaultCaller))).toMatch(
      /^invalid_request/,
    );
  });

  test("is not valid if the ledger cannot record it", async () => {
    const harness = createOverlayHarness();
    const id = await harness.ask({ modelHint: REMOTE_MODEL });
    harness.ledger.mode = "down";
    harness.overlay.respond(id, true, defaultCaller);
    await harness.settle();
    expect(harness.eventSequence(id)).toBe("started needed(consent) failed/ledger_unavailable");
    expect(harness.inference.requests).toEqual([]);
  });

  test("fails the query if it is revoked while the answer streams", async () => {
    const harness = createOverlayHarness();
    harness.consent.set("prompt", true);
    harness.inference.script = function* () {
      yield accepted;
      yield textEvent("so");
      harness.consent.set("prompt", false);
      throw new AssistantError("consent_required", "taken back");
    };
    const id = await harness.ask({ modelHint: REMOTE_MODEL });
    expect(harness.eventSequence(id)).toBe("started so failed/consent_required");
  });

  test("is requested once if a local model has failed and a remote model is its fallback", async () => {
    const harness = createOverlayHarness();
    harness.aliases.set("best", ["tiny", REMOTE_MODEL, "remote:other:gpt"]);
    harness.inference.script = (request) => {
      const { model, egress } = request;
      if (model === "best" || egress?.allowedOnce.length === 0)
        throw new AssistantError("consent_required", "not allowed");
      return says(request, ["far"]);
    };
    const id = await harness.ask({ modelHint: "best" });
    expect(harness.meta(id)?.route).toBe("local");
    expect(harness.eventSequence(id)).toBe("started needed(consent)");
    harness.overlay.respond(id, true, defaultCaller);
    await harness.settle();
    expect(harness.eventSequence(id)).toBe("started needed(consent) far completed/ok");
    // The consent is valid for one provider only, so no other provider is tried.
    expect(harness.inference.requests.at(-1)?.model).toBe(REMOTE_MODEL);
    harness.inference.script = () => {
      throw new AssistantError("consent_required", "not allowed");
    };
    const never = await harness.ask({ modelHint: "best" });
    harness.overlay.respond(never, true, defaultCaller);
    await harness.settle();
    expect(harness.eventSequence(never)).toBe("started needed(consent) failed/consent_required");
  });

  test("is not requested for an unknown provider", async () => {
    const harness = createOverlayHarness();
    const id = await harness.ask({ modelHint: "remote:nobody:gpt", myStuff: true });
    expect(harness.eventSequence(id)).toBe("started failed/model_not_found");
    expect(harness.searches).toEqual([]);
  });

  test("is requested for each query of a sandboxed app without the network, even if it was given permanently", async () => {
    const harness = createOverlayHarness();
    harness.consent.set("prompt", true);
    for (let round = 0; round < 2; round += 1) {
      const id = await harness.ask({ modelHint: REMOTE_MODEL }, sandboxedCaller);
      expect(harness.eventSequence(id)).toBe("started needed(consent)");
      expect(harness.spec(id)).toMatchObject({
        scopes: ["prompt"],
        prompt: "When was the boiler serviced?",
        caller: { app: "org.example.App", verified: true },
      });
      expect(harness.inference.requests).toHaveLength(round);
      harness.overlay.respond(id, true, defaultCaller);
      await harness.settle();
      expect(harness.finished(id)?.status).toBe("completed");
      expect(harness.inference.requests[round]?.egress).toEqual({
        classes: ["prompt"],
        allowedOnce: ["prompt"],
        isOnceOnly: true,
      });
    }
    const online = createCaller(":1.10", { id: "org.a.B", kind: "flatpak", hasNetwork: true });
    for (const [caller, modelHint] of [
      [online, REMOTE_MODEL],
      [sandboxedCaller, undefined],
    ] as const)
      expect(harness.eventSequence(await harness.ask({ modelHint }, caller))).toBe(
        "started Hello   there completed/ok",
      );
  });

  test("is requested for a sandboxed app without the network also if a remote model is only the fallback", async () => {
    const harness = createOverlayHarness();
    harness.consent.set("prompt", true);
    harness.aliases.set("best", ["tiny", REMOTE_MODEL]);
    harness.inference.script = (request) => {
      const { isOnceOnly = false, allowedOnce = [] } = request.egress ?? {};
      if (isOnceOnly && allowedOnce.length === 0)
        throw new AssistantError("consent_required", "not allowed");
      return says(request, ["far"]);
    };
    const id = await harness.ask({ modelHint: "best" }, sandboxedCaller);
    expect(harness.eventSequence(id)).toBe("started needed(consent)");
    harness.overlay.respond(id, true, defaultCaller);
    await harness.settle();
    expect(harness.eventSequence(id)).toBe("started needed(consent) far completed/ok");
  });

  test("cannot be given by a sandboxed app", async () => {
    const harness = createOverlayHarness();
    const id = await harness.ask({ modelHint: REMOTE_MODEL }, sandboxedCaller);
    for (const isApproved of [true, false])
      expect(getRefusal(() => harness.overlay.respond(id, isApproved, sandboxedCaller))).toMatch(
        /^forbidden/,
      );
    expect(harness.eventSequence(id)).toBe("started needed(consent)");
  });

  test("is requested once, and only the first answer counts", async () => {
    const harness = createOverlayHarness();
    const id = await harness.ask({ modelHint: REMOTE_MODEL });
    harness.overlay.respond(id, false, defaultCaller);
    expect(getRefusal(() => harness.overlay.respond(id, true, defaultCaller))).toMatch(
      /^invalid_request/,
    );
    await harness.settle();
    expect(harness.finished(id)?.status).toBe("denied");
    expect(getRefusal(() => harness.overlay.respond(99, true, defaultCaller))).toMatch(
      /^not_found/,
    );
    harness.inference.script = streamForever;
    const running = await harness.ask();
    expect(getRefusal(() => harness.overlay.respond(running, true, defaultCaller))).toMatch(
      /^invalid_request/,
    );
  });
});

describe("a tool call that needs confirmation", () => {
  test("is shown with the fields that the interface Agent1 sends, and is confirmed by the connection that approved", async () => {
    const harness = createOverlayHarness();
    const by: string[] = [];
    harness.pass = async ({ ask }, signal) => {
      by.push((await ask(confirmationSpec(), signal)).connection);
      return oneCallPassOutcome;
    };
    const id = await harness.ask({ lane: "agent" });
    expect(harness.spec(id)).toEqual({ ...confirmationSpec(), kind: "call", question: 1 });
    harness.overlay.respond(id, true, createCaller(":1.8"));
    await harness.settle();
    expect(by).toEqual([":1.8"]);
    expect(harness.finished(id)?.status).toBe("completed");
  });

  test("needs no answer if another frontend has resolved it, and the turn continues", async () => {
    const harness = createOverlayHarness();
    const decided = new AbortController();
    harness.pass = async ({ ask }) => {
      await ask(confirmationSpec(), decided.signal).catch(() => {});
      return oneCallPassOutcome;
    };
    const id = await harness.ask({ lane: "agent" });
    decided.abort(new Error("confirmed elsewhere"));
    await harness.settle();
    expect(harness.finished(id)?.status).toBe("completed");
    expect(harness.clock.timerCount).toBe(0);
  });

  test("is declined by Cancel, after which the query continues; another Cancel ends it", async () => {
    const harness = createOverlayHarness();
    await harness.useTools([["create", { title: "Milk" }], noToolAnswer]);
    harness.inference.script = streamForever;
    const id = await harness.ask({ lane: "agent" });
    harness.overlay.cancel(id, defaultCaller);
    await harness.settle();
    expect(harness.eventSequence(id)).toBe("started needed(call) so");
    harness.overlay.cancel(id, defaultCaller);
    expect(harness.eventSequence(id)).toBe("started needed(call) so cancelled/cancelled");
  });

  test("adds nothing to the data for a provider if the user declines it", async () => {
    const harness = createOverlayHarness();
    harness.consent.set("prompt", true);
    await harness.useTools([["create", { title: "Milk" }], noToolAnswer]);
    const id = await harness.ask({ lane: "agent", modelHint: REMOTE_MODEL });
    harness.overlay.respond(id, false, defaultCaller);
    await harness.settle();
    expect(harness.eventSequence(id)).toBe("started needed(call) Hello   there completed/ok");
    expect(harness.inference.requests[0]?.egress?.classes).toEqual(["prompt"]);
  });
});
