import { describe, expect, test } from "vitest";
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

describe("places", () => {
  test("4 run and 16 wait; the next one is refused until one has ended", async () => {
    const world = createOverlayHarness();
    world.inference.script = streamForever;
    for (let at = 0; at < 20; at += 1) world.overlay.ask(askRequest(), defaultCaller);
    await world.settle();
    expect(world.inference.running).toBe(4);
    expect(getRefusal(() => world.overlay.ask(askRequest(), defaultCaller))).toMatch(
      /^limits_exceeded/,
    );
    world.overlay.cancel(20, defaultCaller);
    await world.ask();
    world.overlay.cancel(1, defaultCaller);
    await world.settle();
    expect(world.eventSequence(5)).toBe("started so");
    expect(world.inference.running).toBe(4);
  });

  test("who has nothing under way finds a place, and the next turn, where another one has taken all", async () => {
    const world = createOverlayHarness();
    world.inference.script = streamForever;
    for (let at = 0; at < 20; at += 1) world.overlay.ask(askRequest(), defaultCaller);
    const late = await world.ask({}, createCaller(":1.8"));
    expect(getRefusal(() => world.overlay.ask(askRequest(), createCaller(":1.8")))).toMatch(
      /^limits/,
    );
    world.overlay.cancel(2, defaultCaller);
    await world.settle();
    expect(world.eventSequence(late)).toBe("started so");
    for (const other of [11, 12, 13]) await world.ask({}, createCaller(`:1.${other}`));
    expect(getRefusal(() => world.overlay.ask(askRequest(), createCaller(":1.14")))).toBe("none");
    expect(getRefusal(() => world.overlay.ask(askRequest(), createCaller(":1.15")))).toMatch(
      /^limits/,
    );
  });

  test("are free while a person thinks", async () => {
    const world = createOverlayHarness();
    world.inference.script = streamForever;
    for (let at = 0; at < 4; at += 1) await world.ask({ modelHint: REMOTE_MODEL });
    const local = await world.ask();
    expect(world.eventSequence(local)).toBe("started so");
    expect(await world.overlay.status()).toMatchObject({
      state: "waiting",
      active: 5,
      pending_confirmations: 4,
    });
    for (let at = 1; at <= 4; at += 1) world.overlay.respond(at, true, defaultCaller);
    await world.settle();
    expect(world.inference.running).toBe(4);
    expect(await world.overlay.status()).toMatchObject({ state: "busy", pending_confirmations: 0 });
  });
});

describe("Cancel", () => {
  test("ends a query wherever it is, at once", async () => {
    const world = createOverlayHarness();
    const stages: readonly [string, () => void, Partial<AskRequest>][] = [
      ["cancelled/cancelled", () => (world.hits = forever), { myStuff: true }],
      [
        "started cancelled/cancelled",
        () => (world.pass = (_, signal) => forever(signal)),
        { lane: "agent" },
      ],
      ["started so cancelled/cancelled", () => (world.inference.script = streamForever), {}],
    ];
    for (const [story, prepare, given] of stages) {
      prepare();
      const id = await world.ask(given);
      world.overlay.cancel(id, defaultCaller);
      expect(world.eventSequence(id)).toBe(story);
      await world.settle();
      expect(world.eventSequence(id)).toBe(story);
      expect(world.inference.running).toBe(0);
    }
    for (let at = 0; at < 4; at += 1) await world.ask();
    const queued = await world.ask();
    world.overlay.cancel(queued, defaultCaller);
    expect(world.eventSequence(queued)).toBe("cancelled/cancelled");
    const early = world.overlay.ask(askRequest(), defaultCaller);
    world.overlay.cancel(early, defaultCaller);
    await world.settle();
    expect(world.eventSequence(early)).toBe("cancelled/cancelled");
    expect(world.finished(early)?.message).toBe("the query was cancelled");
  });

  test("is the end also where a model talks on", async () => {
    const world = createOverlayHarness();
    const gate = new Gate();
    world.inference.script = async function* () {
      yield accepted;
      await gate.opened;
      yield textEvent("late");
    };
    const id = await world.ask();
    world.overlay.cancel(id, defaultCaller);
    gate.open();
    await world.settle();
    expect(world.inference.running).toBe(0);
    expect(world.eventSequence(id)).toBe("started cancelled/cancelled");
  });

  test("is no mistake for an own query that has ended, and is one for anybody else's", async () => {
    const world = createOverlayHarness();
    const id = await world.ask();
    world.overlay.cancel(id, defaultCaller);
    expect(world.eventsOfQuery(id).filter(({ kind }) => kind === "finished")).toHaveLength(1);
    world.inference.script = streamForever;
    const running = await world.ask();
    for (const of of [id, running, 0, 99])
      expect(getRefusal(() => world.overlay.cancel(of, createCaller(":1.8")))).toMatch(
        /^not_found/,
      );
    expect(getRefusal(() => world.overlay.cancel(99, defaultCaller))).toMatch(/^not_found/);
    expect(world.eventSequence(running)).toBe("started so");
  });

  test("of everything that a connection asked is its leaving", async () => {
    const world = createOverlayHarness();
    world.inference.script = streamForever;
    for (let at = 0; at < 6; at += 1) world.overlay.ask(askRequest(), defaultCaller);
    const remote = world.overlay.ask(askRequest({ modelHint: REMOTE_MODEL }), defaultCaller);
    const other = world.overlay.ask(askRequest(), createCaller(":1.8"));
    await world.settle();
    world.overlay.handleDisconnect(defaultCaller.connection);
    await world.settle();
    for (let id = 1; id <= remote; id += 1)
      expect(world.finished(id)).toMatchObject({ status: "cancelled", code: "cancelled" });
    expect(world.eventSequence(other)).toBe("started so");
    expect(world.inference.running).toBe(1);
    expect(getRefusal(() => world.overlay.cancel(1, defaultCaller))).toMatch(/^not_found/);
  });

  test("of everything is the end of the companion", async () => {
    const world = createOverlayHarness();
    world.inference.script = streamForever;
    for (let at = 0; at < 6; at += 1) world.overlay.ask(askRequest(), defaultCaller);
    const asked = world.overlay.ask(askRequest({ modelHint: REMOTE_MODEL }), defaultCaller);
    await world.settle();
    await world.overlay[Symbol.asyncDispose]();
    for (let id = 1; id <= asked; id += 1)
      expect(world.finished(id)).toMatchObject({ status: "cancelled", code: "shutting_down" });
    expect(world.inference.running).toBe(0);
    expect(world.clock.pending).toBe(0);
    expect(getRefusal(() => world.overlay.ask(askRequest(), defaultCaller))).toMatch(
      /^shutting_down/,
    );
  });
});

test("the status says how things stand", async () => {
  const world = createOverlayHarness();
  world.consent.set("files", true);
  await world.clock.advance(1_500);
  expect(await world.overlay.status()).toEqual({
    version: "1.2.3",
    state: "idle",
    active: 0,
    pending_confirmations: 0,
    engine: "scripted",
    model: "tiny",
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

test("a listener that throws costs nobody else anything", async () => {
  const world = createOverlayHarness();
  const stop = world.overlay.subscribe({
    started: () => {
      throw new Error("odd");
    },
    token: () => {},
    confirmationNeeded: () => {},
    finished: () => {},
  });
  expect(world.finished(await world.ask())?.status).toBe("completed");
  expect(world.logged).toHaveLength(1);
  stop();
  await world.ask();
  expect(world.logged).toHaveLength(1);
});
