import { describe, expect, it } from "vitest";
import type { Caller } from "../../../../../src/assistant/caller.ts";
import { DeniedError } from "../../../../../src/assistant/overlay/denied.ts";
import { NOTES, openRules, sandboxed, user } from "../../../../support/agent-world.ts";
import { disorder } from "../../../../support/call-story.ts";
import { none, PassWorld, saysNo } from "../../../../support/pass-world.ts";
import { forever, Gate } from "../../../../support/scripted-service.ts";

const create = ["create", { title: "a" }] as const;

/** The only call of the world, in the ledger. */
function story(world: PassWorld): readonly string[] {
  const [call] = world.agents.ledger.entries.flatMap(({ fields }) => fields["call"] ?? []);
  const told = world.agents.ledger.story(Number(call));
  expect(disorder(told)).toBeUndefined();
  return told;
}

/** Asks, lets the test do something meanwhile, and waits until the question is taken back. */
function meanwhile(world: PassWorld, act: (callId: number) => unknown): { takenBack: number } {
  const count = { takenBack: 0 };
  world.answer = async (spec, asked) => {
    asked.addEventListener("abort", () => {
      count.takenBack += 1;
    });
    await act(spec.call_id);
    return forever(asked);
  };
  return count;
}

describe("a call that has to be confirmed", () => {
  it("is asked about once, as everybody else is, and runs when the person says yes", async () => {
    const world = await PassWorld.open([create, none]);
    const outcome = await world.run();
    expect(world.asked).toEqual(world.agents.asked.map(({ spec }) => spec));
    expect(world.asked).toMatchObject([
      { tool: "create", args: { title: "a" }, chain: ["user"], caller: { actor: "overlay" } },
    ]);
    expect(outcome.calls).toMatchObject([{ tool: "create", status: "executed" }]);
    expect(story(world)).toEqual([
      "call.requested",
      "call.parked",
      "call.confirmed",
      "call.dispatch",
      "call.result:ok",
    ]);
  });

  it("ends the turn when the person says no", async () => {
    const world = await PassWorld.open([create, ["list", {}]]);
    world.answer = saysNo;
    await expect(world.run()).rejects.toMatchObject({ name: "DeniedError", code: "declined" });
    expect(world.told).toMatchObject([{ tool: "create", status: "denied" }]);
    expect(story(world)).toEqual(["call.requested", "call.parked", "call.declined"]);
    expect(world.agents.app.received).toEqual([]);
    expect(world.parked()).toEqual([]);
  });

  it("ends the turn when nobody answers", async () => {
    const world = await PassWorld.open([create]);
    const question = meanwhile(world, () => world.agents.clock.advance(301_000));
    await expect(world.run()).rejects.toMatchObject({ name: "DeniedError", code: "expired" });
    expect(question.takenBack).toBe(1);
    expect(world.told).toMatchObject([{ status: "denied" }]);
  });

  it("goes on with what another frontend has confirmed", async () => {
    const world = await PassWorld.open([create, none]);
    const question = meanwhile(world, (callId) =>
      world.agents.agent.confirm(callId, true, user(":1.8")),
    );
    const outcome = await world.run();
    expect(outcome.results).toMatchObject([{ call: { status: "executed" }, text: '{"id":"n1"}' }]);
    expect(question.takenBack).toBe(1);
    expect(world.agents.received).toBe(1);
  });

  it("ends the turn with what another frontend has declined", async () => {
    const world = await PassWorld.open([create]);
    meanwhile(world, (callId) => world.agents.agent.confirm(callId, false, user(":1.8")));
    await expect(world.run()).rejects.toMatchObject({ name: "DeniedError", code: "declined" });
  });

  it("ends the turn where the tool has become another one before the yes", async () => {
    const world = await PassWorld.open([create]);
    world.answer = async () => {
      world.agents.registry.set([]);
      return user();
    };
    await expect(world.run()).rejects.toMatchObject({
      name: "DeniedError",
      code: "manifest_changed",
    });
  });

  it("runs once where two frontends say yes at once", async () => {
    const world = await PassWorld.open([create, none]);
    world.answer = async ({ call_id: callId }) => {
      void world.agents.agent.confirm(callId, true, user(":1.8"));
      return user();
    };
    expect((await world.run()).calls).toMatchObject([{ status: "executed" }]);
    expect(world.agents.received).toBe(1);
  });

  it("fails where the tool fails after the yes, and the pass goes on", async () => {
    const world = await PassWorld.open([
      ["delete", { id: "none" }],
      ["create", { title: "b" }],
    ]);
    const outcome = await world.run();
    expect(outcome.calls.map(({ status }) => status)).toEqual(["failed", "executed"]);
    expect(outcome.results[0]?.text).toContain("no such note");
  });

  it("is answered before the turn can ask, where somebody is that quick", async () => {
    const world = await PassWorld.open([create, none]);
    world.agents.agent.subscribe({
      confirmationRequested: (callId) => {
        void world.agents.agent.confirm(callId, false, user(":1.8"));
      },
      callResolved: () => {},
    });
    await expect(world.run()).rejects.toMatchObject({ code: "declined" });
    expect(story(world)).toEqual(["call.requested", "call.parked", "call.declined"]);
  });
});

describe("who says yes", () => {
  it("decides as for any call: whoever asked may not under strict rules, and nothing stays parked", async () => {
    const world = await PassWorld.open([create]);
    world.agents.rules = { ...openRules, confirm: "strict" };
    world.answer = async () => user();
    await expect(world.run()).rejects.toMatchObject({ code: "forbidden" });
    expect(world.parked()).toEqual([]);
    expect(story(world)).toEqual(["call.requested", "call.parked", "call.declined"]);
    world.answers.push(["create", { title: "b" }]);
    world.answer = async () => ({ ...user(":1.8"), pid: 900 });
    expect((await world.run()).calls).toMatchObject([{ status: "executed" }]);
  });

  it("is never the sandboxed app that asked, whose label is in the chain", async () => {
    const world = await PassWorld.open([["list", {}]]);
    const caller = sandboxed("org.example.chat");
    world.answer = async () => caller;
    await expect(world.run({ caller })).rejects.toMatchObject({ code: "forbidden" });
    expect(world.asked.map(({ chain }) => chain)).toEqual([["user", "app:org.example.chat"]]);
    expect(world.parked(caller)).toEqual([]);
    expect(world.agents.app.received).toEqual([]);
  });

  it.each<readonly [string, Caller]>([
    ["a sandboxed app", sandboxed("org.example.chat")],
    ["a program beside a confirmer", user(":1.3")],
  ])("%s can take its question back", async (_, caller) => {
    const world = await PassWorld.open([create]);
    world.agents.agent.registerConfirmer(user(":1.90"));
    world.answer = saysNo;
    await expect(world.run({ caller })).rejects.toBeInstanceOf(DeniedError);
    expect(world.parked()).toEqual([]);
  });
});

describe("a turn that ends while a person is asked", () => {
  it("takes the call back", async () => {
    const world = await PassWorld.open([create]);
    const leaving = new AbortController();
    const question = meanwhile(world, () => leaving.abort(new Error("left")));
    await expect(world.run({}, leaving.signal)).rejects.toThrow("left");
    expect(question.takenBack).toBe(1);
    // At once for whoever looks, and in the ledger soon after.
    expect(world.parked()).toEqual([]);
    await world.pass[Symbol.asyncDispose]();
    expect(story(world)).toEqual(["call.requested", "call.parked", "call.declined"]);
    expect(world.agents.app.received).toEqual([]);
  });

  it("takes a call back that was on its way to be parked", async () => {
    const world = await PassWorld.open([create]);
    const leaving = new AbortController();
    world.agents.ledger.onAppend = ({ name }) => {
      if (name === "agent.call.parked") leaving.abort(new Error("left"));
    };
    await expect(world.run({}, leaving.signal)).rejects.toThrow("left");
    await world.pass[Symbol.asyncDispose]();
    expect(world.asked).toEqual([]);
    expect(world.parked()).toEqual([]);
    expect(story(world)).toEqual(["call.requested", "call.parked", "call.declined"]);
  });

  it("does not wait for a call that has been dispatched, which runs on", async () => {
    const world = await PassWorld.open([["list", {}]]);
    const leaving = new AbortController();
    const gate = new Gate();
    world.agents.app.respond = () => {
      leaving.abort(new Error("left"));
      return { kind: "late", release: gate.opened, structured: {} };
    };
    await expect(world.run({}, leaving.signal)).rejects.toThrow("left");
    expect(story(world)).toEqual(["call.requested", "call.dispatch"]);
    gate.open();
    await world.pass[Symbol.asyncDispose]();
    await world.agents.clock.settle();
    expect(story(world)).toEqual(["call.requested", "call.dispatch", "call.result:ok"]);
  });

  it("after the yes lets the call run on", async () => {
    const world = await PassWorld.open([create]);
    const leaving = new AbortController();
    world.agents.ledger.onAppend = ({ name }) => {
      if (name === "agent.call.dispatch") leaving.abort(new Error("left"));
    };
    await expect(world.run({}, leaving.signal)).rejects.toThrow("left");
    await world.pass[Symbol.asyncDispose]();
    expect(world.agents.notes.size).toBe(1);
    expect(world.parked()).toEqual([]);
  });
});

describe("a ledger that cannot be written", () => {
  it("ends the turn, and leaves nothing parked", async () => {
    const world = await PassWorld.open([create]);
    world.answer = async () => {
      world.agents.ledger.mode = "down";
      return user();
    };
    await expect(world.run()).rejects.toMatchObject({ code: "ledger_unavailable" });
    expect(world.parked()).toEqual([]);
    expect(world.agents.app.received).toEqual([]);
    world.answers.push(create);
    await expect(world.run()).rejects.toMatchObject({ code: "ledger_unavailable" });
    expect(world.told.at(-1)).toMatchObject({ app_id: NOTES, status: "failed" });
  });
});
