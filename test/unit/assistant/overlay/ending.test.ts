import { describe, expect, test } from "vitest";
import type { AskRequest } from "../../../../src/assistant/overlay/port.ts";
import {
  asker,
  callerAt,
  overlayWorld,
  question,
  REMOTE_MODEL,
  refusalOf,
  text,
  thinking,
} from "../../../support/overlay-world.ts";
import { accepted, forever, Gate } from "../../../support/scripted-service.ts";

describe("places", () => {
  test("4 run and 16 wait; the next one is refused until one has ended", async () => {
    const world = overlayWorld();
    world.inference.script = thinking;
    for (let at = 0; at < 20; at += 1) world.overlay.ask(question(), asker);
    await world.settle();
    expect(world.inference.running).toBe(4);
    expect(refusalOf(() => world.overlay.ask(question(), asker))).toMatch(/^limits_exceeded/);
    world.overlay.cancel(20, asker);
    await world.ask();
    world.overlay.cancel(1, asker);
    await world.settle();
    expect(world.story(5)).toBe("started so");
    expect(world.inference.running).toBe(4);
  });

  test("who has nothing under way finds a place, and the next turn, where another one has taken all", async () => {
    const world = overlayWorld();
    world.inference.script = thinking;
    for (let at = 0; at < 20; at += 1) world.overlay.ask(question(), asker);
    const late = await world.ask({}, callerAt(":1.8"));
    expect(refusalOf(() => world.overlay.ask(question(), callerAt(":1.8")))).toMatch(/^limits/);
    world.overlay.cancel(2, asker);
    await world.settle();
    expect(world.story(late)).toBe("started so");
    for (const other of [11, 12, 13]) await world.ask({}, callerAt(`:1.${other}`));
    expect(refusalOf(() => world.overlay.ask(question(), callerAt(":1.14")))).toBe("none");
    expect(refusalOf(() => world.overlay.ask(question(), callerAt(":1.15")))).toMatch(/^limits/);
  });

  test("are free while a person thinks", async () => {
    const world = overlayWorld();
    world.inference.script = thinking;
    for (let at = 0; at < 4; at += 1) await world.ask({ modelHint: REMOTE_MODEL });
    const local = await world.ask();
    expect(world.story(local)).toBe("started so");
    expect(await world.overlay.status()).toMatchObject({
      state: "waiting",
      active: 5,
      pending_confirmations: 4,
    });
    for (let at = 1; at <= 4; at += 1) world.overlay.respond(at, true, asker);
    await world.settle();
    expect(world.inference.running).toBe(4);
    expect(await world.overlay.status()).toMatchObject({ state: "busy", pending_confirmations: 0 });
  });
});

describe("Cancel", () => {
  test("ends a query wherever it is, at once", async () => {
    const world = overlayWorld();
    const stages: readonly [string, () => void, Partial<AskRequest>][] = [
      ["cancelled/cancelled", () => (world.hits = forever), { myStuff: true }],
      [
        "started cancelled/cancelled",
        () => (world.pass = (_, signal) => forever(signal)),
        { lane: "agent" },
      ],
      ["started so cancelled/cancelled", () => (world.inference.script = thinking), {}],
    ];
    for (const [story, prepare, given] of stages) {
      prepare();
      const id = await world.ask(given);
      world.overlay.cancel(id, asker);
      expect(world.story(id)).toBe(story);
      await world.settle();
      expect(world.story(id)).toBe(story);
      expect(world.inference.running).toBe(0);
    }
    for (let at = 0; at < 4; at += 1) await world.ask();
    const queued = await world.ask();
    world.overlay.cancel(queued, asker);
    expect(world.story(queued)).toBe("cancelled/cancelled");
    const early = world.overlay.ask(question(), asker);
    world.overlay.cancel(early, asker);
    await world.settle();
    expect(world.story(early)).toBe("cancelled/cancelled");
    expect(world.finished(early)?.message).toBe("Cancel was called");
  });

  test("is the end also where a model talks on", async () => {
    const world = overlayWorld();
    const gate = new Gate();
    world.inference.script = async function* () {
      yield accepted;
      await gate.opened;
      yield text("late");
    };
    const id = await world.ask();
    world.overlay.cancel(id, asker);
    gate.open();
    await world.settle();
    expect(world.inference.running).toBe(0);
    expect(world.story(id)).toBe("started cancelled/cancelled");
  });

  test("is no mistake for an own query that has ended, and is one for anybody else's", async () => {
    const world = overlayWorld();
    const id = await world.ask();
    world.overlay.cancel(id, asker);
    expect(world.of(id).filter(({ kind }) => kind === "finished")).toHaveLength(1);
    world.inference.script = thinking;
    const running = await world.ask();
    for (const of of [id, running, 0, 99])
      expect(refusalOf(() => world.overlay.cancel(of, callerAt(":1.8")))).toMatch(/^not_found/);
    expect(refusalOf(() => world.overlay.cancel(99, asker))).toMatch(/^not_found/);
    expect(world.story(running)).toBe("started so");
  });

  test("of everything that a connection asked is its leaving", async () => {
    const world = overlayWorld();
    world.inference.script = thinking;
    for (let at = 0; at < 6; at += 1) world.overlay.ask(question(), asker);
    const remote = world.overlay.ask(question({ modelHint: REMOTE_MODEL }), asker);
    const other = world.overlay.ask(question(), callerAt(":1.8"));
    await world.settle();
    world.overlay.callerGone(asker.connection);
    await world.settle();
    for (let id = 1; id <= remote; id += 1)
      expect(world.finished(id)).toMatchObject({ status: "cancelled", code: "cancelled" });
    expect(world.story(other)).toBe("started so");
    expect(world.inference.running).toBe(1);
    expect(refusalOf(() => world.overlay.cancel(1, asker))).toMatch(/^not_found/);
  });

  test("of everything is the end of the companion", async () => {
    const world = overlayWorld();
    world.inference.script = thinking;
    for (let at = 0; at < 6; at += 1) world.overlay.ask(question(), asker);
    const asked = world.overlay.ask(question({ modelHint: REMOTE_MODEL }), asker);
    await world.settle();
    await world.overlay[Symbol.asyncDispose]();
    for (let id = 1; id <= asked; id += 1)
      expect(world.finished(id)).toMatchObject({ status: "cancelled", code: "shutting_down" });
    expect(world.inference.running).toBe(0);
    expect(world.clock.pending).toBe(0);
    expect(refusalOf(() => world.overlay.ask(question(), asker))).toMatch(/^shutting_down/);
  });
});

test("the status says how things stand", async () => {
  const world = overlayWorld();
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
  const world = overlayWorld();
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
