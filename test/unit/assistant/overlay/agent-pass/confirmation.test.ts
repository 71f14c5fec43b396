import { describe, expect, it } from "vitest";
import type { Caller } from "../../../../../src/assistant/caller.ts";
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

/** Returns the names of the ledger entries of the only call. */
function entryNames(harness: AgentPassHarness): readonly string[] {
  const [call] = harness.agentHarness.ledger.entries.flatMap(({ fields }) => fields["call"] ?? []);
  const told = harness.agentHarness.ledger.entryNamesOfCall(Number(call));
  expect(findOrderViolation(told)).toBeUndefined();
  return told;
}

/**
 * Lets the agent pass ask the user to confirm a call, runs `act` meanwhile, and never answers the question. `takenBack`
 * counts how often the agent pass withdrew its question.
 */
function runUntilWithdrawn(
  harness: AgentPassHarness,
  act: (callId: number) => unknown,
): { takenBack: number } {
  const count = { takenBack: 0 };
  harness.answer = async (spec, asked) => {
    asked.addEventListener("abort", () => {
      count.takenBack += 1;
    });
    await act(spec.call_id);
    return forever(asked);
  };
  return count;
}

describe("a call that needs confirmation, in the agent pass", () => {
  it("is shown to the user once, with the fields that other frontends get, and runs when the user approves", async () => {
    const harness = await AgentPassHarness.open([create, noToolAnswer]);
    const outcome = await harness.run();
    expect(harness.confirmationRequests).toEqual(
      harness.agentHarness.confirmationRequests.map(({ spec }) => spec),
    );
    expect(harness.confirmationRequests).toMatchObject([
      { tool: "create", args: { title: "a" }, chain: ["user"], caller: { actor: "overlay" } },
    ]);
    expect(outcome.calls).toMatchObject([{ tool: "create", status: "executed" }]);
    expect(entryNames(harness)).toEqual([
      "call.requested",
      "call.parked",
      "call.confirmed",
      "call.dispatch",
      "call.result:ok",
    ]);
  });

  it("is reported to the model as declined when the user declines, and the turn goes on", async () => {
    const harness = await AgentPassHarness.open([create, ["list", {}], noToolAnswer]);
    harness.answer = declineQuestion;
    const outcome = await harness.run();
    expect(outcome).toMatchObject({
      isAvailable: true,
      calls: [
        { tool: "create", status: "denied" },
        { tool: "list", status: "executed" },
      ],
    });
    expect(outcome.results[0]?.text).toBe("not done: declined by the user");
    expect(harness.prompts[1]).toContain("not done: declined by the user");
    expect(harness.reportedCalls).toEqual(outcome.calls);
    // A declined call adds no app to the provenance chain, so the read that follows needs no confirmation.
    expect(harness.confirmationRequests).toHaveLength(1);
    expect(harness.agentHarness.ledger.entryNamesOfCall(outcome.calls[0]?.call_id ?? 0)).toEqual([
      "call.requested",
      "call.parked",
      "call.declined",
    ]);
    expect(harness.agentHarness.app.received.map(({ name }) => name)).toEqual(["list"]);
    expect(harness.listParked()).toEqual([]);
  });

  it("is not shown again in the same turn after the user has declined it, even if the model chooses it again later", async () => {
    const harness = await AgentPassHarness.open([create, ["list", {}], create]);
    harness.answer = declineQuestion;
    const outcome = await harness.run();
    expect(harness.confirmationRequests).toHaveLength(1);
    expect(outcome.calls.map(({ tool }) => tool)).toEqual(["create", "list"]);
  });

  it("ends the pass when the user declines two calls in a row", async () => {
    const harness = await AgentPassHarness.open([
      create,
      ["create", { title: "b" }],
      ["create", { title: "c" }],
    ]);
    harness.answer = declineQuestion;
    const outcome = await harness.run();
    expect(outcome.calls.map(({ status }) => status)).toEqual(["denied", "denied"]);
    expect(harness.confirmationRequests).toHaveLength(2);
    expect(harness.agentHarness.app.received).toEqual([]);
  });

  it("ends the turn when the user does not answer in time", async () => {
    const harness = await AgentPassHarness.open([create]);
    const question = runUntilWithdrawn(harness, () => harness.agentHarness.clock.advance(301_000));
    await expect(harness.run()).rejects.toMatchObject({ name: "DeniedError", code: "expired" });
    expect(question.takenBack).toBe(1);
    expect(harness.reportedCalls).toMatchObject([{ status: "denied" }]);
  });

  it("continues the turn when another frontend confirms", async () => {
    const harness = await AgentPassHarness.open([create, noToolAnswer]);
    const question = runUntilWithdrawn(harness, (callId) =>
      harness.agentHarness.agent.confirm(callId, true, userCaller(":1.8")),
    );
    const outcome = await harness.run();
    expect(outcome.results).toMatchObject([{ call: { status: "executed" }, text: '{"id":"n1"}' }]);
    expect(question.takenBack).toBe(1);
    expect(harness.agentHarness.received).toBe(1);
  });

  it("continues the turn when another frontend declines", async () => {
    const harness = await AgentPassHarness.open([create, noToolAnswer]);
    const question = runUntilWithdrawn(harness, (callId) =>
      harness.agentHarness.agent.confirm(callId, false, userCaller(":1.8")),
    );
    const outcome = await harness.run();
    expect(question.takenBack).toBe(1);
    expect(outcome.results).toMatchObject([
      { call: { status: "denied" }, text: "not done: declined by the user" },
    ]);
  });

  it("has the result of another frontend's approval if the user declines too late", async () => {
    const harness = await AgentPassHarness.open([create, noToolAnswer]);
    harness.answer = async (spec, asked) => {
      void harness.agentHarness.agent.confirm(spec.call_id, true, userCaller(":1.8"));
      return declineQuestion(spec, asked);
    };
    expect((await harness.run()).calls).toMatchObject([{ status: "executed" }]);
    expect(harness.agentHarness.received).toBe(1);
  });

  it("ends the turn if the tool's declaration changes before the approval", async () => {
    const harness = await AgentPassHarness.open([create]);
    harness.answer = async () => {
      harness.agentHarness.registry.set([]);
      return userCaller();
    };
    await expect(harness.run()).rejects.toMatchObject({
      name: "DeniedError",
      code: "manifest_changed",
    });
  });

  it("runs once if two frontends approve at the same time", async () => {
    const harness = await AgentPassHarness.open([create, noToolAnswer]);
    harness.answer = async ({ call_id: callId }) => {
      void harness.agentHarness.agent.confirm(callId, true, userCaller(":1.8"));
      return userCaller();
    };
    expect((await harness.run()).calls).toMatchObject([{ status: "executed" }]);
    expect(harness.agentHarness.received).toBe(1);
  });

  it("is shown again if the approval comes before the end of its hold time", async () => {
    const harness = await AgentPassHarness.open([["delete", { id: "n1" }], noToolAnswer]);
    harness.agentHarness.notes.set("n1", {});
    harness.answer = async () => {
      if (harness.confirmationRequests.length > 1) await harness.agentHarness.clock.advance(1_500);
      return userCaller();
    };
    const outcome = await harness.run({ provenance: ["user", "web:news"] });
    expect(outcome.calls).toMatchObject([{ tool: "delete", status: "executed" }]);
    expect(harness.confirmationRequests.map(({ call_id: callId }) => callId)).toEqual([1, 1]);
    expect(entryNames(harness)).toEqual([
      "call.requested",
      "call.parked",
      "call.confirmed",
      "call.dispatch",
      "call.result:ok",
    ]);
  });

  it("lets the pass continue if the tool fails after the approval", async () => {
    const harness = await AgentPassHarness.open([
      ["delete", { id: "none" }],
      ["create", { title: "b" }],
    ]);
    const outcome = await harness.run();
    expect(outcome.calls.map(({ status }) => status)).toEqual(["failed", "executed"]);
    expect(outcome.results[0]?.text).toContain("no such note");
  });

  it("may be confirmed by another frontend before the turn asks its own user", async () => {
    const harness = await AgentPassHarness.open([create, noToolAnswer]);
    harness.agentHarness.agent.subscribe({
      confirmationRequested: (callId) => {
        void harness.agentHarness.agent.confirm(callId, false, userCaller(":1.8"));
      },
      callResolved: () => {},
    });
    expect((await harness.run()).calls).toMatchObject([{ status: "denied" }]);
    expect(entryNames(harness)).toEqual(["call.requested", "call.parked", "call.declined"]);
  });
});

describe("the caller of a turn with a tool call", () => {
  it("needs the same permission as for any call: under strict rules the requester may not approve, and the call is withdrawn", async () => {
    const harness = await AgentPassHarness.open([create]);
    harness.agentHarness.rules = { ...permissiveRules, confirm: "strict" };
    harness.answer = async () => userCaller();
    await expect(harness.run()).rejects.toMatchObject({ code: "forbidden" });
    expect(harness.listParked()).toEqual([]);
    expect(entryNames(harness)).toEqual(["call.requested", "call.parked", "call.declined"]);
    harness.answers.push(["create", { title: "b" }]);
    harness.answer = async () => ({ ...userCaller(":1.8"), pid: 900 });
    expect((await harness.run()).calls).toMatchObject([{ status: "executed" }]);
  });

  it("is never the sandboxed app that requested the call, which the provenance chain of the call names", async () => {
    const harness = await AgentPassHarness.open([["list", {}]]);
    const caller = sandboxedCaller("org.example.chat");
    harness.answer = async () => caller;
    await expect(harness.run({ caller })).rejects.toMatchObject({ code: "forbidden" });
    expect(harness.confirmationRequests.map(({ chain }) => chain)).toEqual([
      ["user", "app:org.example.chat"],
    ]);
    expect(harness.listParked(caller)).toEqual([]);
    expect(harness.agentHarness.app.received).toEqual([]);
  });

  it.each<readonly [string, Caller]>([
    ["a sandboxed app", sandboxedCaller("org.example.chat")],
    ["a program that has not registered as confirmer", userCaller(":1.3")],
  ])("can withdraw the question about its own call, even if it is %s", async (_, caller) => {
    const harness = await AgentPassHarness.open([create]);
    await harness.agentHarness.agent.registerConfirmer(userCaller(":1.90"));
    harness.answer = declineQuestion;
    expect((await harness.run({ caller })).calls).toMatchObject([{ status: "denied" }]);
    expect(harness.listParked()).toEqual([]);
  });
});

describe("a turn that is aborted", () => {
  it("withdraws the call that the user is asked to confirm", async () => {
    const harness = await AgentPassHarness.open([create]);
    const leaving = new AbortController();
    const question = runUntilWithdrawn(harness, () => leaving.abort(new Error("left")));
    await expect(harness.run({}, leaving.signal)).rejects.toThrow("left");
    expect(question.takenBack).toBe(1);
    // The call leaves the list of waiting calls at once, and the ledger records its end soon after.
    expect(harness.listParked()).toEqual([]);
    await harness.pass[Symbol.asyncDispose]();
    expect(entryNames(harness)).toEqual(["call.requested", "call.parked", "call.declined"]);
    expect(harness.agentHarness.app.received).toEqual([]);
  });

  it("withdraws a call that waits for confirmation before the user has been asked", async () => {
    const harness = await AgentPassHarness.open([create]);
    const leaving = new AbortController();
    harness.agentHarness.ledger.onAppend = ({ name }) => {
      if (name === "agent.call.parked") leaving.abort(new Error("left"));
    };
    await expect(harness.run({}, leaving.signal)).rejects.toThrow("left");
    await harness.pass[Symbol.asyncDispose]();
    expect(harness.confirmationRequests).toEqual([]);
    expect(harness.listParked()).toEqual([]);
    expect(entryNames(harness)).toEqual(["call.requested", "call.parked", "call.declined"]);
  });

  it("does not wait for a dispatched call, which runs to its end", async () => {
    const harness = await AgentPassHarness.open([["list", {}]]);
    const leaving = new AbortController();
    const gate = new Gate();
    harness.agentHarness.app.respond = () => {
      leaving.abort(new Error("left"));
      return { kind: "late", release: gate.opened, structured: {} };
    };
    await expect(harness.run({}, leaving.signal)).rejects.toThrow("left");
    expect(entryNames(harness)).toEqual(["call.requested", "call.dispatch"]);
    gate.open();
    await harness.pass[Symbol.asyncDispose]();
    await harness.agentHarness.clock.settle();
    expect(entryNames(harness)).toEqual(["call.requested", "call.dispatch", "call.result:ok"]);
  });

  it("lets a call run to its end if the user has already approved it", async () => {
    const harness = await AgentPassHarness.open([create]);
    const leaving = new AbortController();
    harness.agentHarness.ledger.onAppend = ({ name }) => {
      if (name === "agent.call.dispatch") leaving.abort(new Error("left"));
    };
    await expect(harness.run({}, leaving.signal)).rejects.toThrow("left");
    await harness.pass[Symbol.asyncDispose]();
    expect(harness.agentHarness.notes.size).toBe(1);
    expect(harness.listParked()).toEqual([]);
  });
});

describe("a ledger that cannot be written", () => {
  it("ends the turn, and no call waits for confirmation afterwards", async () => {
    const harness = await AgentPassHarness.open([create]);
    harness.answer = async () => {
      harness.agentHarness.ledger.mode = "down";
      return userCaller();
    };
    await expect(harness.run()).rejects.toMatchObject({ code: "ledger_unavailable" });
    expect(harness.listParked()).toEqual([]);
    expect(harness.agentHarness.app.received).toEqual([]);
    harness.answers.push(create);
    await expect(harness.run()).rejects.toMatchObject({ code: "ledger_unavailable" });
    expect(harness.reportedCalls.at(-1)).toMatchObject({ app_id: NOTES, status: "failed" });
  });
});
