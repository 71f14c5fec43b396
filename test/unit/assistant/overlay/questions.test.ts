import { describe, expect, test } from "vitest";
import type { AskRequest } from "../../../../src/assistant/overlay/port.ts";
import {
  confirmationSpec,
  createCaller,
  createOverlayHarness,
  defaultCaller,
  emptyPassOutcome,
  getRefusal,
  oneCallPassOutcome,
  REMOTE_MODEL,
  sandboxedCaller,
  searchHit,
  streamForever,
} from "../../../support/overlay-harness.ts";
import { Gate } from "../../../support/scripted-service.ts";

const remote: Partial<AskRequest> = { modelHint: REMOTE_MODEL, lane: "agent" };

describe("an answer", () => {
  test("is to the question that it was given to, and to no later one of the query", async () => {
    const world = createOverlayHarness();
    let confirmed = 0;
    world.pass = async ({ ask }, signal) => {
      await ask(
        confirmationSpec({ tiers: { declared: "destructive", effective: "destructive" } }),
        signal,
      );
      confirmed += 1;
      return oneCallPassOutcome;
    };
    const id = await world.ask(remote);
    expect(world.spec(id)).toMatchObject({ kind: "consent", question: 1 });
    world.overlay.respond(id, true, defaultCaller, 1);
    await world.settle();
    expect(world.spec(id)).toMatchObject({ kind: "call", question: 2 });
    // Two frontends show the first question, and the second one's person is slower.
    for (const number of [1, 0, 3])
      expect(getRefusal(() => world.overlay.respond(id, true, createCaller(":1.30"), number))).toBe(
        `invalid_request: question ${number} of query ${id} does not wait for an answer`,
      );
    await world.settle();
    expect(confirmed).toBe(0);
    world.overlay.respond(id, true, createCaller(":1.30"), 2);
    await world.settle();
    expect(confirmed).toBe(1);
    expect(world.spec(id)).toMatchObject({ kind: "consent", question: 3, scopes: ["files"] });
    world.overlay.respond(id, false, defaultCaller, 3);
    await world.settle();
    expect(world.finished(id)?.code).toBe("declined");
    expect(getRefusal(() => world.overlay.respond(id, false, defaultCaller, 3))).toContain(
      "question 3",
    );
  });

  test("that came from elsewhere lets a turn go on, once there is a place for it", async () => {
    const world = createOverlayHarness({
      running: 1,
      waiting: 4,
      reservedForNew: 0,
      answerTimeoutMs: 1_000,
    });
    const elsewhere = new AbortController();
    const steps: string[] = [];
    world.pass = async ({ ask }) => {
      await ask(confirmationSpec(), elsewhere.signal).catch(() => {});
      steps.push("goes on");
      return emptyPassOutcome;
    };
    const first = await world.ask({ lane: "agent" });
    world.inference.script = streamForever;
    const second = await world.ask({}, createCaller(":1.8"));
    expect(world.eventSequence(second)).toBe("started so");
    elsewhere.abort();
    await world.settle();
    expect(steps).toEqual([]);
    world.overlay.cancel(second, createCaller(":1.8"));
    await world.settle();
    expect(steps).toEqual(["goes on"]);
    expect(world.eventSequence(first)).toBe("started needed(call) so");
  });

  test("has a query go on before those that have not begun, though they have waited longer", async () => {
    const world = createOverlayHarness({
      running: 1,
      waiting: 4,
      reservedForNew: 0,
      answerTimeoutMs: 1_000,
    });
    const first = await world.ask(remote);
    world.inference.script = streamForever;
    const second = await world.ask({}, createCaller(":1.8"));
    const third = await world.ask({}, createCaller(":1.9"));
    world.overlay.respond(first, true, defaultCaller, 1);
    await world.settle();
    expect([world.eventSequence(second), world.eventSequence(third)]).toEqual(["started so", ""]);
    world.overlay.cancel(second, createCaller(":1.8"));
    await world.settle();
    expect([world.eventSequence(first), world.eventSequence(third)]).toEqual([
      "started needed(consent) so",
      "",
    ]);
  });

  test("by number is no way around the rule for apps in a sandbox", async () => {
    const world = createOverlayHarness();
    const id = await world.ask(remote);
    expect(getRefusal(() => world.overlay.respond(id, true, sandboxedCaller, 1))).toContain(
      "forbidden",
    );
    expect(getRefusal(() => world.overlay.respond(id + 1, true, defaultCaller, 1))).toContain(
      "not_found",
    );
  });
});

describe("who is asked for consent", () => {
  test("sees who asked, for what, where it goes, and which tools' results it holds", async () => {
    const world = createOverlayHarness();
    world.consent.set("prompt", true);
    world.hits = async () => [searchHit({ provenance: "memory:notes" })];
    world.pass = async ({ onCall }) => {
      for (const call of oneCallPassOutcome.calls) onCall?.(call);
      return oneCallPassOutcome;
    };
    const prompt = `Well\n\u202eknown?${"x".repeat(1_000)}`;
    const id = await world.ask({ ...remote, prompt, myStuff: true }, sandboxedCaller);
    expect(world.spec(id)).toMatchObject({
      scopes: ["memory"],
      address: "https://cloud.example",
      calls: [],
      caller: { app: "org.example.App", verified: true },
    });
    world.overlay.respond(id, true, defaultCaller);
    await world.settle();
    const spec = world.spec(id);
    expect(spec).toMatchObject({ scopes: ["files"], calls: oneCallPassOutcome.calls });
    const shown = spec?.kind === "consent" ? spec.prompt : "";
    expect(shown).toMatch(/^Well \\u\{202e\}known\?x+…$/);
    expect(shown).toHaveLength(400);
    const unit = createCaller(":1.8", { id: "a.service", kind: "unit" });
    world.consent.set("prompt", false);
    expect(world.spec(await world.ask(remote, unit))).toMatchObject({
      caller: { app: "a.service", verified: false },
    });
    expect(world.spec(await world.ask(remote))).toMatchObject({
      caller: { app: null, verified: false },
    });
  });

  test("has said yes to that provider at that address, and nothing goes to another one of its name", async () => {
    const world = createOverlayHarness();
    const id = await world.ask(remote);
    world.providers.set("cloud", "https://evil.example");
    world.overlay.respond(id, true, defaultCaller);
    await world.settle();
    expect(world.finished(id)).toMatchObject({ status: "failed", code: "consent_required" });
    expect(world.inference.requests).toEqual([]);
    expect(world.ledger.entries).toEqual([]);

    const gate = new Gate();
    world.pass = async () => {
      await gate.opened;
      return { ...oneCallPassOutcome, results: [] };
    };
    const later = await world.ask(remote);
    world.overlay.respond(later, true, defaultCaller);
    await world.settle();
    world.providers.delete("cloud");
    gate.open();
    await world.settle();
    expect(world.finished(later)).toMatchObject({ status: "failed", code: "consent_required" });
    expect(world.inference.requests).toEqual([]);
  });

  test("is asked once more for the same address, and for no other one", async () => {
    const world = createOverlayHarness();
    world.pass = async () => oneCallPassOutcome;
    const id = await world.ask(remote);
    world.overlay.respond(id, true, defaultCaller);
    await world.settle();
    expect(world.spec(id)).toMatchObject({ question: 2, address: "https://cloud.example" });
    world.providers.set("cloud", "https://evil.example");
    world.overlay.respond(id, true, defaultCaller);
    await world.settle();
    expect(world.finished(id)).toMatchObject({ status: "failed", code: "consent_required" });

    world.providers.set("cloud", "https://cloud.example");
    world.pass = async () => {
      world.providers.set("cloud", "https://evil.example");
      return oneCallPassOutcome;
    };
    const later = await world.ask(remote);
    world.overlay.respond(later, true, defaultCaller);
    await world.settle();
    expect(world.eventSequence(later)).toBe("started needed(consent) failed/consent_required");
    expect(world.inference.requests).toEqual([]);
  });

  test("and whoever is asked second is not asked when the query has ended", async () => {
    const world = createOverlayHarness();
    world.ui.connection = async () => {
      // The answer of the bus and the one that leaves come in one read.
      queueMicrotask(() => world.overlay.handleDisconnect(defaultCaller.connection));
      return ":1.30";
    };
    const id = await world.ask(remote);
    expect(world.eventsOfQuery(id).map(({ kind, to }) => `${kind} ${to}`)).toEqual([
      "started :1.7",
      "needed :1.7",
      "finished :1.7",
    ]);
  });
});
