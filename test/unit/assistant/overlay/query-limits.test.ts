import { describe, expect, test } from "vitest";
import { AssistantError } from "../../../../src/assistant/assistant-error.ts";
import type { Caller } from "../../../../src/assistant/caller.ts";
import type { AskRequest } from "../../../../src/assistant/overlay/port.ts";
import {
  askRequest,
  createCaller,
  createOverlayHarness,
  defaultCaller,
  getRefusal,
  REMOTE_MODEL,
  streamForever,
  textEvent,
} from "../../../support/overlay-harness.ts";
import { accepted, forever, Gate } from "../../../support/scripted-service.ts";

function createAppCaller(connection: number, id = "org.example.App"): Caller {
  return createCaller(`:2.${connection}`, { id, kind: "flatpak" });
}

describe("the capacity for queries", () => {
  test("allows 4 running and 16 waiting queries; the next query is refused until one has ended", async () => {
    const harness = createOverlayHarness();
    harness.inference.script = streamForever;
    for (let at = 0; at < 20; at += 1) harness.overlay.ask(askRequest(), defaultCaller);
    await harness.settle();
    expect(harness.inference.running).toBe(4);
    expect(getRefusal(() => harness.overlay.ask(askRequest(), defaultCaller))).toMatch(
      /^limits_exceeded/,
    );
    harness.overlay.cancel(20, defaultCaller);
    await harness.ask();
    harness.overlay.cancel(1, defaultCaller);
    await harness.settle();
    expect(harness.eventSequence(5)).toBe("started so");
    expect(harness.inference.running).toBe(4);
  });

  test("accepts the first query of another connection even if one connection uses all places, and runs it next", async () => {
    const harness = createOverlayHarness();
    harness.inference.script = streamForever;
    for (let at = 0; at < 20; at += 1) harness.overlay.ask(askRequest(), defaultCaller);
    const late = await harness.ask({}, createCaller(":1.8"));
    expect(getRefusal(() => harness.overlay.ask(askRequest(), createCaller(":1.8")))).toMatch(
      /^limits/,
    );
    harness.overlay.cancel(2, defaultCaller);
    await harness.settle();
    expect(harness.eventSequence(late)).toBe("started so");
    for (const other of [11, 12, 13]) await harness.ask({}, createCaller(`:1.${other}`));
    expect(getRefusal(() => harness.overlay.ask(askRequest(), createCaller(":1.14")))).toBe("none");
    expect(getRefusal(() => harness.overlay.ask(askRequest(), createCaller(":1.15")))).toMatch(
      /^limits/,
    );
  });

  test("is counted by app, not by connection, for sandboxed apps, and has a part that is only for the user's own programs", async () => {
    const harness = createOverlayHarness();
    harness.inference.script = streamForever;
    const ask = (caller: Caller) =>
      getRefusal(() => harness.overlay.ask(askRequest(), caller)).split(":")[0];
    const askOften = (id: string) =>
      Array.from({ length: 30 }, (_, connection) => ask(createAppCaller(connection, id)));
    for (const id of ["org.example.App", "org.example.Other"])
      expect(askOften(id).filter((answer) => answer === "none")).toHaveLength(8);
    expect(ask(createAppCaller(31, "org.example.Third"))).toBe("limits_exceeded");
    await harness.settle();
    expect(harness.inference.running).toBe(3);
    const own = await harness.ask({}, createCaller(":1.8"));
    expect(harness.eventSequence(own)).toBe("started so");
    // The user's programs have 4 of the 20 places, and 4 more for connections without a query.
    expect([8, 8, 8, 8, 9].map((connection) => ask(createCaller(`:1.${connection}`)))).toEqual([
      "none",
      "none",
      "none",
      "limits_exceeded",
      "none",
    ]);
  });

  test("is shared fairly between sandboxed apps, whatever the number of their connections", async () => {
    const harness = createOverlayHarness();
    harness.inference.script = streamForever;
    const ask = (connection: string, id: string) =>
      harness.ask({}, createCaller(connection, { id, kind: "flatpak" }));
    for (let at = 0; at < 8; at += 1) await ask(`:2.${at}`, "org.example.Many");
    const other = await ask(":3.1", "org.example.One");
    expect(harness.eventSequence(other)).toBe("");
    harness.overlay.handleDisconnect(":2.0");
    await harness.settle();
    expect(harness.eventSequence(other)).toBe("started so");
    expect(harness.inference.running).toBe(3);
  });

  test("is not used by a query that waits for the user", async () => {
    const harness = createOverlayHarness();
    harness.inference.script = streamForever;
    for (let at = 0; at < 4; at += 1) await harness.ask({ modelHint: REMOTE_MODEL });
    const local = await harness.ask();
    expect(harness.eventSequence(local)).toBe("started so");
    expect(await harness.overlay.status()).toMatchObject({
      state: "waiting",
      active: 5,
      pending_confirmations: 4,
    });
    for (let at = 1; at <= 4; at += 1) harness.overlay.respond(at, true, defaultCaller);
    await harness.settle();
    expect(harness.inference.running).toBe(4);
    expect(await harness.overlay.status()).toMatchObject({
      state: "busy",
      pending_confirmations: 0,
    });
  });
});

describe("a query that ends before its turn begins", () => {
  test("gets Started before Finished, without sources and with its options as unavailable", async () => {
    const harness = createOverlayHarness();
    harness.inference.script = streamForever;
    for (let at = 0; at < 4; at += 1) await harness.ask();
    const waiting = await harness.ask({
      lane: "agent",
      modelHint: REMOTE_MODEL,
      myStuff: true,
      window: true,
    });
    expect(harness.eventSequence(waiting)).toBe("");
    await harness.overlay[Symbol.asyncDispose]();
    expect(harness.eventSequence(waiting)).toBe("started cancelled/shutting_down");
    expect(harness.meta(waiting)).toEqual({
      v: 1,
      lane: "agent",
      model: REMOTE_MODEL,
      route: "remote",
      options: [],
      unavailable: ["my_stuff", "window"],
      sources: [],
    });
    expect(harness.eventsOfQuery(waiting).map(({ to }) => to)).toEqual([
      defaultCaller.connection,
      defaultCaller.connection,
    ]);
  });
});

describe("Cancel of the overlay", () => {
  test("ends a query in any state, at once", async () => {
    const harness = createOverlayHarness();
    const stages: readonly [string, () => void, Partial<AskRequest>][] = [
      ["started cancelled/cancelled", () => (harness.hits = forever), { myStuff: true }],
      [
        "started cancelled/cancelled",
        () => (harness.pass = (_, signal) => forever(signal)),
        { lane: "agent" },
      ],
      ["started so cancelled/cancelled", () => (harness.inference.script = streamForever), {}],
    ];
    for (const [story, prepare, given] of stages) {
      prepare();
      const id = await harness.ask(given);
      harness.overlay.cancel(id, defaultCaller);
      expect(harness.eventSequence(id)).toBe(story);
      await harness.settle();
      expect(harness.eventSequence(id)).toBe(story);
      expect(harness.inference.running).toBe(0);
    }
    for (let at = 0; at < 4; at += 1) await harness.ask();
    const queued = await harness.ask();
    harness.overlay.cancel(queued, defaultCaller);
    expect(harness.eventSequence(queued)).toBe("started cancelled/cancelled");
    const early = harness.overlay.ask(askRequest(), defaultCaller);
    harness.overlay.cancel(early, defaultCaller);
    await harness.settle();
    expect(harness.eventSequence(early)).toBe("started cancelled/cancelled");
    expect(harness.finished(early)?.message).toBe("the query was cancelled");
  });

  test("ends the query even if the model continues to generate", async () => {
    const harness = createOverlayHarness();
    const gate = new Gate();
    harness.inference.script = async function* () {
      yield accepted;
      await gate.opened;
      yield textEvent("late");
    };
    const id = await harness.ask();
    harness.overlay.cancel(id, defaultCaller);
    gate.open();
    await harness.settle();
    expect(harness.inference.running).toBe(0);
    expect(harness.eventSequence(id)).toBe("started cancelled/cancelled");
  });

  test("has no effect on an ended query of the same connection, and returns an error for queries of others", async () => {
    const harness = createOverlayHarness();
    const id = await harness.ask();
    harness.overlay.cancel(id, defaultCaller);
    expect(harness.eventsOfQuery(id).filter(({ kind }) => kind === "finished")).toHaveLength(1);
    harness.inference.script = streamForever;
    const running = await harness.ask();
    for (const of of [id, running, 0, 99])
      expect(getRefusal(() => harness.overlay.cancel(of, createCaller(":1.8")))).toMatch(
        /^not_found/,
      );
    expect(getRefusal(() => harness.overlay.cancel(99, defaultCaller))).toMatch(/^not_found/);
    expect(harness.eventSequence(running)).toBe("started so");
  });

  test("is applied to all queries of a connection that disconnects", async () => {
    const harness = createOverlayHarness();
    harness.inference.script = streamForever;
    for (let at = 0; at < 6; at += 1) harness.overlay.ask(askRequest(), defaultCaller);
    const remote = harness.overlay.ask(askRequest({ modelHint: REMOTE_MODEL }), defaultCaller);
    const other = harness.overlay.ask(askRequest(), createCaller(":1.8"));
    await harness.settle();
    harness.overlay.handleDisconnect(defaultCaller.connection);
    await harness.settle();
    for (let id = 1; id <= remote; id += 1)
      expect(harness.finished(id)).toMatchObject({ status: "cancelled", code: "cancelled" });
    expect(harness.eventSequence(other)).toBe("started so");
    expect(harness.inference.running).toBe(1);
    expect(getRefusal(() => harness.overlay.cancel(1, defaultCaller))).toMatch(/^not_found/);
  });

  test("is applied to all queries when the companion shuts down", async () => {
    const harness = createOverlayHarness();
    harness.inference.script = streamForever;
    for (let at = 0; at < 6; at += 1) harness.overlay.ask(askRequest(), defaultCaller);
    const asked = harness.overlay.ask(askRequest({ modelHint: REMOTE_MODEL }), defaultCaller);
    await harness.settle();
    await harness.overlay[Symbol.asyncDispose]();
    for (let id = 1; id <= asked; id += 1)
      expect(harness.finished(id)).toMatchObject({ status: "cancelled", code: "shutting_down" });
    expect(harness.inference.running).toBe(0);
    expect(harness.clock.timerCount).toBe(0);
    expect(getRefusal(() => harness.overlay.ask(askRequest(), defaultCaller))).toMatch(
      /^shutting_down/,
    );
  });
});

test("GetStatus reports queries, engine, model, ledger, index, frontend, consent, providers and uptime", async () => {
  const harness = createOverlayHarness();
  harness.consent.set("files", true);
  await harness.clock.advance(1_500);
  expect(await harness.overlay.status()).toEqual({
    version: "1.2.3",
    state: "idle",
    active: 0,
    pending_confirmations: 0,
    engine: "scripted",
    model: "tiny",
    model_error: "",
    http_port: 7778,
    ledger_ok: true,
    ledger_size: 12,
    index_docs: 0,
    index_state: "empty",
    window_available: false,
    selection_available: false,
    consent: ["files"],
    providers: ["cloud"],
    uptime_ms: 1_500,
  });
});

test("GetStatus reports why no local model can be reached", async () => {
  const harness = createOverlayHarness();
  harness.localModelError = new AssistantError("no_model", "the system instance does not answer");
  expect(await harness.overlay.status()).toMatchObject({
    model: "",
    model_error: "the system instance does not answer",
  });
  harness.localModelError = new Error("a path: /root/x");
  const { model_error } = await harness.overlay.status();
  expect(model_error).toBe("the list of local models cannot be read");
});

test("a listener of the overlay that throws does not affect the others", async () => {
  const harness = createOverlayHarness();
  const stop = harness.overlay.subscribe({
    started: () => {
      throw new Error("odd");
    },
    token: () => {},
    confirmationNeeded: () => {},
    finished: () => {},
  });
  expect(harness.finished(await harness.ask())?.status).toBe("completed");
  expect(harness.logged).toHaveLength(1);
  stop();
  await harness.ask();
  expect(harness.logged).toHaveLength(1);
});
