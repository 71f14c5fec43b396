import { describe, expect, it } from "vitest";
import type { Caller } from "../../../../../src/assistant/caller.ts";
import { DeniedError } from "../../../../../src/assistant/overlay/denied-error.ts";
import {
  NOTES,
  permissiveRules,
  sandboxedCaller,
  userCaller,
} from "../../../../support/agent-harness.ts";
import {
  AgentPassHarness,
  declineQuestion,
  noToolAnswer,
} from "../../../../support/agent-pass-harness.ts";
import { findOrderViolation } from "../../../../support/call-entry-order.ts";
import { forever, Gate } from "../../../../support/scripted-service.ts";

const create = ["create", { title: "a" }] as const;

/** The only call of the world, in the ledger. */
function story(world: AgentPassHarness): readonly string[] {
  const [call] = world.agentHarness.ledger.entries.flatMap(({ fields }) => fields["call"] ?? []);
  const told = world.agentHarness.ledger.entryNamesOfCall(Number(call));
  expect(findOrderViolation(told)).toBeUndefined();
  return told;
}

/** Asks, lets the test do something meanwhile, and waits until the question is taken back. */
function meanwhile(
  world: AgentPassHarness,
  act: (callId: number) => unknown,
): { takenBack: number } {
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
    const world = await AgentPassHarness.open([create, noToolAnswer]);
    const outcome = await world.run();
    expect(world.confirmationRequests).toEqual(
      world.agentHarness.confirmationRequests.map(({ spec }) => spec),
    );
    expect(world.confirmationRequests).toMatchObject([
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
    const world = await AgentPassHarness.open([create, ["list", {}]]);
    world.answer = declineQuestion;
    await expect(world.run()).rejects.toMatchObject({ name: "DeniedError", code: "declined" });
    expect(world.reportedCalls).toMatchObject([{ tool: "create", status: "denied" }]);
    expect(story(world)).toEqual(["call.requested", "call.parked", "call.declined"]);
    expect(world.agentHarness.app.received).toEqual([]);
    expect(world.listParked()).toEqual([]);
  });

  it("ends the turn when nobody answers", async () => {
    const world = await AgentPassHarness.open([create]);
    const question = meanwhile(world, () => world.agentHarness.clock.advance(301_000));
    await expect(world.run()).rejects.toMatchObject({ name: "DeniedError", code: "expired" });
    expect(question.takenBack).toBe(1);
    expect(world.reportedCalls).toMatchObject([{ status: "denied" }]);
  });

  it("goes on with what another frontend has confirmed", async () => {
    const world = await AgentPassHarness.open([create, noToolAnswer]);
    const question = meanwhile(world, (callId) =>
      world.agentHarness.agent.confirm(callId, true, userCaller(":1.8")),
    );
    const outcome = await world.run();
    expect(outcome.results).toMatchObject([{ call: { status: "executed" }, text: '{"id":"n1"}' }]);
    expect(question.takenBack).toBe(1);
    expect(world.agentHarness.received).toBe(1);
  });

  it("ends the turn with what another frontend has declined", async () => {
    const world = await AgentPassHarness.open([create]);
    meanwhile(world, (callId) =>
      world.agentHarness.agent.confirm(callId, false, userCaller(":1.8")),
    );
    await expect(world.run()).rejects.toMatchObject({ name: "DeniedError", code: "declined" });
  });

  it("ends the turn where the tool has become another one before the yes", async () => {
    const world = await AgentPassHarness.open([create]);
    world.answer = async () => {
      world.agentHarness.registry.set([]);
      return userCaller();
    };
    await expect(world.run()).rejects.toMatchObject({
      name: "DeniedError",
      code: "manifest_changed",
    });
  });

  it("runs once where two frontends say yes at once", async () => {
    const world = await AgentPassHarness.open([create, noToolAnswer]);
    world.answer = async ({ call_id: callId }) => {
      void world.agentHarness.agent.confirm(callId, true, userCaller(":1.8"));
      return userCaller();
    };
    expect((await world.run()).calls).toMatchObject([{ status: "executed" }]);
    expect(world.agentHarness.received).toBe(1);
  });

  it("fails where the tool fails after the yes, and the pass goes on", async () => {
    const world = await AgentPassHarness.open([
      ["delete", { id: "none" }],
      ["create", { title: "b" }],
    ]);
    const outcome = await world.run();
    expect(outcome.calls.map(({ status }) => status)).toEqual(["failed", "executed"]);
    expect(outcome.results[0]?.text).toContain("no such note");
  });

  it("is answered before the turn can ask, where somebody is that quick", async () => {
    const world = await AgentPassHarness.open([create, noToolAnswer]);
    world.agentHarness.agent.subscribe({
      confirmationRequested: (callId) => {
        void world.agentHarness.agent.confirm(callId, false, userCaller(":1.8"));
      },
      callResolved: () => {},
    });
    await expect(world.run()).rejects.toMatchObject({ code: "declined" });
    expect(story(world)).toEqual(["call.requested", "call.parked", "call.declined"]);
  });
});

describe("who says yes", () => {
  it("decides as for any call: whoever asked may not under strict rules, and nothing stays parked", async () => {
    const world = await AgentPassHarness.open([create]);
    world.agentHarness.rules = { ...permissiveRules, confirm: "strict" };
    world.answer = async () => userCaller();
    await expect(world.run()).rejects.toMatchObject({ code: "forbidden" });
    expect(world.listParked()).toEqual([]);
    expect(story(world)).toEqual(["call.requested", "call.parked", "call.declined"]);
    world.answers.push(["create", { title: "b" }]);
    world.answer = async () => ({ ...userCaller(":1.8"), pid: 900 });
    expect((await world.run()).calls).toMatchObject([{ status: "executed" }]);
  });

  it("is never the sandboxed app that asked, whose label is in the chain", async () => {
    const world = await AgentPassHarness.open([["list", {}]]);
    const caller = sandboxedCaller("org.example.chat");
    world.answer = async () => caller;
    await expect(world.run({ caller })).rejects.toMatchObject({ code: "forbidden" });
    expect(world.confirmationRequests.map(({ chain }) => chain)).toEqual([
      ["user", "app:org.example.chat"],
    ]);
    expect(world.listParked(caller)).toEqual([]);
    expect(world.agentHarness.app.received).toEqual([]);
  });

  it.each<readonly [string, Caller]>([
    ["a sandboxed app", sandboxedCaller("org.example.chat")],
    ["a program beside a confirmer", userCaller(":1.3")],
  ])("%s can take its question back", async (_, caller) => {
    const world = await AgentPassHarness.open([create]);
    world.agentHarness.agent.registerConfirmer(userCaller(":1.90"));
    world.answer = declineQuestion;
    await expect(world.run({ caller })).rejects.toBeInstanceOf(DeniedError);
    expect(world.listParked()).toEqual([]);
  });
});

describe("a turn that ends while a person is asked", () => {
  it("takes the call back", async () => {
    const world = await AgentPassHarness.open([create]);
    const leaving = new AbortController();
    const question = meanwhile(world, () => leaving.abort(new Error("left")));
    await expect(world.run({}, leaving.signal)).rejects.toThrow("left");
    expect(question.takenBack).toBe(1);
    // At once for whoever looks, and in the ledger soon after.
    expect(world.listParked()).toEqual([]);
    await world.pass[Symbol.asyncDispose]();
    expect(story(world)).toEqual(["call.requested", "call.parked", "call.declined"]);
    expect(world.agentHarness.app.received).toEqual([]);
  });

  it("takes a call back that was on its way to be parked", async () => {
    const world = await AgentPassHarness.open([create]);
    const leaving = new AbortController();
    world.agentHarness.ledger.onAppend = ({ name }) => {
      if (name === "agent.call.parked") leaving.abort(new Error("left"));
    };
    await expect(world.run({}, leaving.signal)).rejects.toThrow("left");
    await world.pass[Symbol.asyncDispose]();
    expect(world.confirmationRequests).toEqual([]);
    expect(world.listParked()).toEqual([]);
    expect(story(world)).toEqual(["call.requested", "call.parked", "call.declined"]);
  });

  it("does not wait for a call that has been dispatched, which runs on", async () => {
    const world = await AgentPassHarness.open([["list", {}]]);
    const leaving = new AbortController();
    const gate = new Gate();
    world.agentHarness.app.respond = () => {
      leaving.abort(new Error("left"));
      return { kind: "late", release: gate.opened, structured: {} };
    };
    await expect(world.run({}, leaving.signal)).rejects.toThrow("left");
    expect(story(world)).toEqual(["call.requested", "call.dispatch"]);
    gate.open();
    await world.pass[Symbol.asyncDispose]();
    await world.agentHarness.clock.settle();
    expect(story(world)).toEqual(["call.requested", "call.dispatch", "call.result:ok"]);
  });

  it("after the yes lets the call run on", async () => {
    const world = await AgentPassHarness.open([create]);
    const leaving = new AbortController();
    world.agentHarness.ledger.onAppend = ({ name }) => {
      if (name === "agent.call.dispatch") leaving.abort(new Error("left"));
    };
    await expect(world.run({}, leaving.signal)).rejects.toThrow("left");
    await world.pass[Symbol.asyncDispose]();
    expect(world.agentHarness.notes.size).toBe(1);
    expect(world.listParked()).toEqual([]);
  });
});

describe("a ledger that cannot be written", () => {
  it("ends the turn, and leaves nothing parked", async () => {
    const world = await AgentPassHarness.open([create]);
    world.answer = async () => {
      world.agentHarness.ledger.mode = "down";
      return userCaller();
    };
    await expect(world.run()).rejects.toMatchObject({ code: "ledger_unavailable" });
    expect(world.listParked()).toEqual([]);
    expect(world.agentHarness.app.received).toEqual([]);
    world.answers.push(create);
    await expect(world.run()).rejects.toMatchObject({ code: "ledger_unavailable" });
    expect(world.reportedCalls.at(-1)).toMatchObject({ app_id: NOTES, status: "failed" });
  });
});
