import { describe, expect, test } from "vitest";
import type { AskRequest } from "../../../../src/assistant/overlay/port.ts";
import { noToolAnswer } from "../../../support/agent-pass-harness.ts";
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
import { Gate, says } from "../../../support/scripted-service.ts";

const remote: Partial<AskRequest> = { modelHint: REMOTE_MODEL, lane: "agent" };

const oneSlot = {
  running: 1,
  waiting: 4,
  reservedForNew: 0,
  perSandboxedApp: 8,
  reservedForPerson: { slots: 0, queries: 0 },
  answerTimeoutMs: 1_000,
};

describe("an answer to a question", () => {
  test("counts only for the question with its number, not for a later question of the query", async () => {
    const harness = createOverlayHarness();
    let confirmed = 0;
    harness.pass = async ({ ask }, signal) => {
      await ask(
        confirmationSpec({ tiers: { declared: "destructive", effective: "destructive" } }),
        signal,
      );
      confirmed += 1;
      return oneCallPassOutcome;
    };
    const id = await harness.ask(remote);
    expect(harness.spec(id)).toMatchObject({ kind: "consent", question: 1 });
    harness.overlay.respond(id, true, defaultCaller, 1);
    await harness.settle();
    expect(harness.spec(id)).toMatchObject({ kind: "call", question: 2 });
    // Two frontends show the first question. The second frontend answers after the first frontend has answered.
    for (const number of [1, 0, 3])
      expect(
        getRefusal(() => harness.overlay.respond(id, true, createCaller(":1.30"), number)),
      ).toBe(`invalid_request: question ${number} of query ${id} does not wait for an answer`);
    await harness.settle();
    expect(confirmed).toBe(0);
    harness.overlay.respond(id, true, createCaller(":1.30"), 2);
    await harness.settle();
    expect(confirmed).toBe(1);
    expect(harness.spec(id)).toMatchObject({ kind: "consent", question: 3, scopes: ["files"] });
    harness.overlay.respond(id, false, defaultCaller, 3);
    await harness.settle();
    expect(harness.finished(id)?.code).toBe("declined");
    expect(getRefusal(() => harness.overlay.respond(id, false, defaultCaller, 3))).toContain(
      "question 3",
    );
  });

  test("approves a call only after the hold time of the question, but declines it at any time", async () => {
    const harness = createOverlayHarness();
    harness.pass = async ({ ask }, signal) => {
      await ask(confirmationSpec({ hold_ms: 1_500 }), signal);
      return emptyPassOutcome;
    };
    const id = await harness.ask({ lane: "agent" });
    const answer = () => harness.overlay.respond(id, true, defaultCaller);
    expect(getRefusal(answer)).toContain("busy: question 1");
    await harness.clock.advance(1_499);
    expect(getRefusal(answer)).toContain("busy: question 1");
    expect(harness.eventSequence(id)).toBe("started needed(call)");
    await harness.clock.advance(1);
    answer();
    await harness.settle();
    expect(harness.finished(id)?.code).toBe("ok");
    const declined = await harness.ask({ lane: "agent" });
    harness.overlay.respond(declined, false, defaultCaller);
    await harness.settle();
    expect(harness.finished(declined)?.code).toBe("declined");
  });

  test("by another frontend lets the turn continue as soon as a slot is free", async () => {
    const harness = createOverlayHarness({ limits: oneSlot });
    const elsewhere = new AbortController();
    const steps: string[] = [];
    harness.pass = async ({ ask }) => {
      await ask(confirmationSpec(), elsewhere.signal).catch(() => {});
      steps.push("goes on");
      return emptyPassOutcome;
    };
    const first = await harness.ask({ lane: "agent" });
    harness.inference.script = streamForever;
    const second = await harness.ask({}, createCaller(":1.8"));
    expect(harness.eventSequence(second)).toBe("started so");
    elsewhere.abort();
    await harness.settle();
    expect(steps).toEqual([]);
    harness.overlay.cancel(second, createCaller(":1.8"));
    await harness.settle();
    expect(steps).toEqual(["goes on"]);
    expect(harness.eventSequence(first)).toBe("started needed(call) so");
  });

  test("that declines a tool call takes effect at once, and the turn continues without the call as soon as a slot is free", async () => {
    const harness = createOverlayHarness({ limits: oneSlot });
    const agentHarness = await harness.useTools([["create", { title: "Milk" }], noToolAnswer]);
    const first = await harness.ask({ lane: "agent" });
    harness.inference.script = streamForever;
    const second = await harness.ask({}, createCaller(":1.8"));
    harness.overlay.respond(first, false, defaultCaller);
    await harness.settle();
    expect(agentHarness.agent.listParked(defaultCaller)).toEqual([]);
    expect(harness.eventSequence(first)).toBe("started needed(call)");
    harness.inference.script = (request) => says(request, ["not", "done"]);
    harness.overlay.cancel(second, createCaller(":1.8"));
    await harness.settle();
    expect(harness.eventSequence(first)).toBe("started needed(call) not done completed/ok");
    expect(harness.finished(first)?.calls).toMatchObject([{ tool: "create", status: "denied" }]);
    expect(harness.lastQuestion).toContain(
      'status="denied">\nnot done: declined by the user\n</result>',
    );
    expect(agentHarness.notes.size).toBe(0);
  });

  test("gives the query priority over new queries, even if these have waited longer", async () => {
    const harness = createOverlayHarness({ limits: oneSlot });
    const first = await harness.ask(remote);
    harness.inference.script = streamForever;
    const second = await harness.ask({}, createCaller(":1.8"));
    const third = await harness.ask({}, createCaller(":1.9"));
    harness.overlay.respond(first, true, defaultCaller, 1);
    await harness.settle();
    expect([harness.eventSequence(second), harness.eventSequence(third)]).toEqual([
      "started so",
      "",
    ]);
    harness.overlay.cancel(second, createCaller(":1.8"));
    await harness.settle();
    expect([harness.eventSequence(first), harness.eventSequence(third)]).toEqual([
      "started needed(consent) so",
      "",
    ]);
  });

  test("with a question number is still refused if a sandboxed app sends it", async () => {
    const harness = createOverlayHarness();
    const id = await harness.ask(remote);
    expect(getRefusal(() => harness.overlay.respond(id, true, sandboxedCaller, 1))).toContain(
      "forbidden",
    );
    expect(getRefusal(() => harness.overlay.respond(id + 1, true, defaultCaller, 1))).toContain(
      "not_found",
    );
  });
});

describe("the question for consent", () => {
  test("shows the caller, the prompt, the destination and the tools whose results would be sent", async () => {
    const harness = createOverlayHarness();
    harness.consent.set("prompt", true);
    harness.hits = async () => [searchHit({ provenance: "memory:notes" })];
    harness.pass = async ({ onCall }) => {
      for (const call of oneCallPassOutcome.calls) onCall?.(call);
      return oneCallPassOutcome;
    };
    const prompt = `Well\n\u202eknown?${"x".repeat(1_000)}`;
    const online = createCaller(":1.9", {
      id: "org.example.App",
      kind: "flatpak",
      hasNetwork: true,
    });
    const id = await harness.ask({ ...remote, prompt, myStuff: true }, online);
    expect(harness.spec(id)).toMatchObject({
      scopes: ["memory"],
      address: "https://cloud.example",
      calls: [],
      caller: { app: "org.example.App", verified: true },
    });
    harness.overlay.respond(id, true, defaultCaller);
    await harness.settle();
    const spec = harness.spec(id);
    expect(spec).toMatchObject({ scopes: ["files"], calls: oneCallPassOutcome.calls });
    const shown = spec?.kind === "consent" ? spec.prompt : "";
    expect(shown).toMatch(/^Well \\u\{202e\}known\?x+…$/);
    expect(shown).toHaveLength(400);
    const unit = createCaller(":1.8", { id: "a.service", kind: "unit" });
    harness.consent.set("prompt", false);
    expect(harness.spec(await harness.ask(remote, unit))).toMatchObject({
      caller: { app: "a.service", verified: false },
    });
    expect(harness.spec(await harness.ask(remote))).toMatchObject({
      caller: { app: null, verified: false },
    });
  });

  test("covers one provider at one address: no data is sent if the address changes or the provider is removed after the question", async () => {
    const harness = createOverlayHarness();
    const id = await harness.ask(remote);
    harness.providers.set("cloud", "https://evil.example");
    harness.overlay.respond(id, true, defaultCaller);
    await harness.settle();
    expect(harness.finished(id)).toMatchObject({ status: "failed", code: "consent_required" });
    expect(harness.inference.requests).toEqual([]);
    expect(harness.ledger.entries).toEqual([]);

    const gate = new Gate();
    harness.pass = async () => {
      await gate.opened;
      return { ...oneCallPassOutcome, results: [] };
    };
    const later = await harness.ask(remote);
    harness.overlay.respond(later, true, defaultCaller);
    await harness.settle();
    harness.providers.delete("cloud");
    gate.open();
    await harness.settle();
    expect(harness.finished(later)).toMatchObject({ status: "failed", code: "consent_required" });
    expect(harness.inference.requests).toEqual([]);
  });

  test("is asked again for the results of tools; the query fails if the provider's address changes before the answer", async () => {
    const harness = createOverlayHarness();
    harness.pass = async () => oneCallPassOutcome;
    const id = await harness.ask(remote);
    harness.overlay.respond(id, true, defaultCaller);
    await harness.settle();
    expect(harness.spec(id)).toMatchObject({ question: 2, address: "https://cloud.example" });
    harness.providers.set("cloud", "https://evil.example");
    harness.overlay.respond(id, true, defaultCaller);
    await harness.settle();
    expect(harness.finished(id)).toMatchObject({ status: "failed", code: "consent_required" });

    harness.providers.set("cloud", "https://cloud.example");
    harness.pass = async () => {
      harness.providers.set("cloud", "https://evil.example");
      return oneCallPassOutcome;
    };
    const later = await harness.ask(remote);
    harness.overlay.respond(later, true, defaultCaller);
    await harness.settle();
    expect(harness.eventSequence(later)).toBe("started needed(consent) failed/consent_required");
    expect(harness.inference.requests).toEqual([]);
  });

  test("is not sent to the frontend if the query has ended", async () => {
    const harness = createOverlayHarness();
    harness.ui.connection = async () => {
      // The look-up of the frontend's connection succeeds just as the client that made the query disconnects.
      queueMicrotask(() => harness.overlay.handleDisconnect(defaultCaller.connection));
      return ":1.30";
    };
    const id = await harness.ask(remote);
    expect(harness.eventsOfQuery(id).map(({ kind, to }) => `${kind} ${to}`)).toEqual([
      "started :1.7",
      "needed :1.7",
      "finished :1.7",
    ]);
  });
});
